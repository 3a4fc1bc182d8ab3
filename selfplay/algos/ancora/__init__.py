"""ANCORA (arXiv 2604.27644): one policy proposes specifications and proves them. `driver.run` is the way in."""
