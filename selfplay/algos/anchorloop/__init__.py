"""AnchorLoop (arXiv 2610.09856): a curriculum agent, a tool-using executor, the previous executor as an anchor."""
