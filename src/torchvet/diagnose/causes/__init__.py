"""Causes: one `.py` and one `.md` per cause. Found by listing the folder; nothing registers them."""
