"""BenchEvolver (arXiv 2606.01286): saturated coding tasks evolve, solution first, into harder verified ones."""
