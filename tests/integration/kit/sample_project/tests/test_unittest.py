import unittest

from jetspark.testing import AsyncServerTestCase, ServerTestCase
from orders import OrderService


class Blocking(ServerTestCase):
    def test_an_order_survives_a_crash(self):
        js = self.client.jetstream()
        js.create_stream("ORDERS", subjects=["orders.*"])
        js.publish("orders.placed", b"book")
        self.server.crash()
        self.assertEqual(js.stream("ORDERS").info().state.messages, 1)


class Coroutines(AsyncServerTestCase):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.service = OrderService(self.client)
        await self.service.start()

    async def test_an_order_that_is_never_billed_is_given_up(self):
        await self.service.place("1", "book")
        for _ in range(3):
            await self.service.bill(dies=True)
            await self.server.advance(seconds=30)
        self.assertEqual(await self.service.bill(), 0)

    async def test_bills_are_sent(self):
        await self.service.place("1", "book")
        await self.service.bill()
        await self.server.published("mail.bill", count=1)


if __name__ == "__main__":
    unittest.main()
