"""The refusals of a server, with their HTTP status."""


class Refused(Exception):
    """The refusal of a request.

    Args:
        status: HTTP status.
        message: Message to the client.
        retry_after: Seconds after which the client may try again, or `None`.
    """

    def __init__(self, status, message, retry_after=None):
        super().__init__(message)
        self.status = status
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
