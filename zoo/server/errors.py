"""The refusals of a server, with their HTTP status."""


class Refused(Exception):
    """The refusal of a request.

    Args:
        status: HTTP status.
        message: Message to the client.
        headers: Dictionary of the headers of the answer, or `None`.
    """

    def __init__(self, status, message, headers=None):
        super().__init__(message)
        self.status, self.headers = status, headers
