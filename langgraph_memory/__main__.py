"""`python -m langgraph_memory` is `lgm`."""

from langgraph_memory.cli import main

if __name__ == "__main__":
    main()
