"""The blocking twin of schema registries."""

from tests.support.servers import ServerProcess

import jetspark.sync


def test_a_registry_is_used_without_asyncio(server: ServerProcess, name: str) -> None:
    with jetspark.sync.connect(server.url) as nc:
        js = nc.jetstream()
        registry = js.create_schema_registry(name)
        schema = registry.register("orders", "id BIGINT")
        stream = js.create_stream(f"S_{name}", subjects=[f"s.{name}"])
        js.publish(f"s.{name}", schema.encode({"id": 1}), headers=schema.headers)

        assert [one.name for one in registry.schemas()] == ["orders"]
        assert registry.decode(stream.get_msg(seq=1)) == {"id": 1}
        assert js.schema_registry(name).get("orders") == schema
        assert registry.check("orders", "id STRING") != ()
