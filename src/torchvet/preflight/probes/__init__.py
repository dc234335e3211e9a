"""One file and one page for each probe. They are found by listing this folder."""
