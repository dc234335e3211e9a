"""DataLoader settings by measurement: `plan` bounds them, `trial` measures one in a child, `search` picks.

The machine is never taken down: before each trial its need of shared memory, memory and open files is compared with
what is free, and a trial that hangs is killed with its workers.
"""
