"""# The harness of bench/run

peers who is measured → install how they get here → cluster where → steps what is measured → report the page →
plot the picture.
"""
