"""A request in a few words for whoever looks for a bug: its verb and how much it names, and nothing of what it says."""

from coordinator.protocol.messages import Request


def shape_of(request: Request) -> str:
    """Return the name of a request and the lengths of its lists."""
    lengths = [
        f"{len(items)} {name}"
        for name in request.__struct_fields__
        if isinstance(items := getattr(request, name), tuple) and items
    ]
    return f"{type(request).__name__} ({', '.join(lengths)})" if lengths else type(request).__name__


def where_of(error: BaseException) -> str:
    """Return the kind of an error and the line it came from; its text may hold what a member said."""
    place = error.__traceback__
    if place is None:
        return type(error).__name__
    while place.tb_next is not None:
        place = place.tb_next
    file = place.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{file}:{place.tb_lineno} ({type(error).__name__})"
