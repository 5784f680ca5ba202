import anyio
import pytest
from orders import OrderService

pytestmark = pytest.mark.anyio


@pytest.fixture
async def service(jetspark_client):
    service = OrderService(jetspark_client)
    await service.start()
    return service


async def test_an_order_is_billed_again_if_the_worker_dies(service, jetspark_server):
    await service.place("1", "book")
    await service.bill(dies=True)
    assert await service.bill() == 0

    await jetspark_server.advance(seconds=30)

    assert await service.bill() == 1
    await jetspark_server.published("mail.bill", count=1, data=b"book")


async def test_a_reservation_ends(service, jetspark_server):
    await service.place("1", "book")
    await jetspark_server.advance(minutes=14)
    assert await service.is_reserved("book")

    await jetspark_server.advance(minutes=1)

    assert not await service.is_reserved("book")


async def test_orders_from_many_tasks(service, jetspark_server):
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(service.place, str(number), f"item{number}")

    await jetspark_server.published("orders.placed", count=20)
