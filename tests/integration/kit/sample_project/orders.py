"""An order service: places orders exactly once, bills them, and reserves stock for a while."""

import jetspark

RESERVED_S = 15 * 60


class OrderService:
    """Orders are messages of a stream; reservations are keys that expire."""

    def __init__(self, client: jetspark.Client) -> None:
        self._client = client
        self._js = client.jetstream()
        self._reservations: jetspark.KeyValue | None = None
        self._billing: jetspark.Consumer | None = None

    async def start(self) -> None:
        """Create what the service needs."""
        stream = await self._js.create_or_update_stream("ORDERS", subjects=["orders.*"])
        self._billing = await stream.create_or_update_consumer(
            durable="billing", ack_wait=30, max_deliver=3
        )
        self._reservations = await self._js.create_or_update_key_value("reservations")

    async def place(self, order: str, item: str) -> bool:
        """Store an order; False if it is stored already."""
        assert self._reservations is not None
        ack = await self._js.publish("orders.placed", item.encode(), msg_id=order)
        await self._reservations.put(item, order.encode(), ttl=RESERVED_S)
        return not ack.duplicate

    async def is_reserved(self, item: str) -> bool:
        """Whether an item is reserved for an order."""
        assert self._reservations is not None
        try:
            await self._reservations.get(item)
        except jetspark.errors.KeyNotFound:
            return False
        return True

    async def bill(self, *, dies: bool = False) -> int:
        """Bill the orders that wait; return how many there were."""
        assert self._billing is not None
        messages = await self._billing.fetch(10, no_wait=True)
        for message in messages:
            if dies:
                return 0
            self._client.publish("mail.bill", message.data)
            await message.ack_sync()
        return len(messages)
