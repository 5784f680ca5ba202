"""``python -m demo``, from the folder of the repository: what ``make demo`` runs."""

from demo.command import demo

if __name__ == "__main__":
    demo(prog_name="python -m demo")
