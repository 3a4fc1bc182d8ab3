"""What a machine can run: small checks of its parts against one configuration."""
