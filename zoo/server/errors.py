"""What a server refuses, and the status that tells so."""


class Refused(Exception):
    """A request that gets an answer other than the one it asked for.

    Args:
        status: HTTP status.
        message: What the client is told.
        retry_after: Seconds after which the client may try again, or `None`.
    """

    def __init__(self, status, message, retry_after=None):
        super().__init__(message)
        self.status = status
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
