-- A table that each run computes anew, from the cleaned orders.
CREATE MATERIALIZED VIEW revenue AS
SELECT region, count(*) AS orders, round(sum(amount), 2) AS amount
FROM orders
GROUP BY region;

-- What the flow `publish_alerts` publishes. The id is that of the order's message, so that
-- publishing it again stores nothing.
CREATE TEMPORARY VIEW large_orders AS
SELECT
    concat('alerts.', region) AS subject,
    to_json(struct(id, amount, seq)) AS data,
    concat('ORDERS:', seq) AS msg_id
FROM STREAM(orders)
WHERE amount >= 900;
