"""What this client is called."""

VERSION = "0.1.0"
CLIENT = f"turnwise-python {VERSION}"
#: The version of the protocol for workers that it speaks.
PROTOCOL = 1
