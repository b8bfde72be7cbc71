from tests.fakes.issued import Issued
from tests.fakes.scripts import Json


def check_messages(body: Json, issued: Issued) -> None:
    pass
