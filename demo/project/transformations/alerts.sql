-- Orders of 2,000 and more. Each names the message that it was.
CREATE TEMPORARY VIEW large_orders AS
SELECT
    concat('alerts.', region) AS subject,
    to_json(struct(seq, id, customer, cents)) AS data,
    concat('EVENTS:', seq) AS msg_id
FROM STREAM(events)
WHERE kind = 'order' AND cents >= 200000;
