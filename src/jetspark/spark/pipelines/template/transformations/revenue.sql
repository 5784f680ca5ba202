-- A table that each run computes anew, from the cleaned orders.
CREATE MATERIALIZED VIEW revenue AS
SELECT region, count(*) AS orders, round(sum(amount), 2) AS amount
FROM orders
GROUP BY region;

-- What the flow `publish_alerts` publishes. The id is that of the order's message, so that
-- publishing it again within the stream's duplicate_window stores nothing. It has more than the
-- sequence, which is another message's if the stream ORDERS is deleted and created again.
CREATE TEMPORARY VIEW large_orders AS
SELECT
    concat('alerts.', region) AS subject,
    to_json(struct(id, amount, seq)) AS data,
    concat_ws(':', 'ORDERS', seq, id) AS msg_id
FROM STREAM(orders)
WHERE amount >= 900;
