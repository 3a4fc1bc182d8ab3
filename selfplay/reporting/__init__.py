"""What a report is made of: runs as tables, figures of them, and one page around these."""
