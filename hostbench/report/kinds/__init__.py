"""How each kind of question (hostbench.families.question) is answered from the rows of a run."""
