"""What ended a job: evidence in, causes out, with what speaks for and against each.

files -> readers (`evidence/`) -> facts -> case -> causes (`causes/`) -> verdicts. Nothing here executes what it reads.
"""
