"""git: facts of a repository, and the code of a commit to measure."""
