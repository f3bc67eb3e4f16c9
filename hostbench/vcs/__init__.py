"""git: facts of a repository, the code of a commit to measure, bisection."""
