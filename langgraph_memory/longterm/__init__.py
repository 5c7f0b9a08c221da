"""What outlives a thread: a ledger of entries, the curated MEMORY.md and an index of both, a folder a namespace.

The files are the truth, and plain Markdown that people read and edit; the index can be made anew from them at any
time. Everything in this room but `Workspace` and the tools is blocking, and is called in threads.
"""
