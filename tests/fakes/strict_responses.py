from tests.fakes.issued import Issued
from tests.fakes.scripts import Json


def check_responses(body: Json, issued: Issued) -> None:
    pass
