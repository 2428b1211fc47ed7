"""A FastAPI application. Write key and endpoint: HOOKLINE_CLIENT_WRITE_KEY and HOOKLINE_CLIENT_ENDPOINT.

``uvicorn fastapi_app:app``
"""

from typing import Annotated

from fastapi import Depends, FastAPI

from hookline_client.frameworks.fastapi import Hookline, RequestCalls

hookline = Hookline(user_id=lambda connection: connection.headers.get("x-user"))
app = FastAPI(lifespan=hookline.lifespan)

Calls = Annotated[RequestCalls, Depends(hookline)]


@app.get("/buy")
async def buy(item: str, calls: Calls) -> dict[str, object]:
    """Track without saying who: it is whom ``user_id`` names, or the browser's anonymous id."""
    return {"sent": [calls.track(event="Bought", properties={"item": item})]}


@app.get("/buy-sync")
def buy_sync(item: str, calls: Calls) -> dict[str, object]:
    """The same in an endpoint that runs in a thread."""
    return {"sent": [calls.track(event="Bought", properties={"item": item})]}
