"""The reasons for closing a connection."""

from enum import StrEnum


class CloseReason(StrEnum):
    """Why a connection was closed, with nats-server's texts."""

    CLIENT_CLOSED = "Client Closed"
    AUTHENTICATION_TIMEOUT = "Authentication Timeout"
    AUTHENTICATION_FAILURE = "Authentication Failure"
    AUTHENTICATION_EXPIRED = "Authentication Expired"
    TLS_HANDSHAKE_FAILURE = "TLS Handshake Failure"
    SLOW_CONSUMER_PENDING_BYTES = "Slow Consumer (Pending Bytes)"
    SLOW_CONSUMER_WRITE_DEADLINE = "Slow Consumer (Write Deadline)"
    WRITE_ERROR = "Write Error"
    READ_ERROR = "Read Error"
    PARSE_ERROR = "Parse Error"
    STALE_CONNECTION = "Stale Connection"
    PROTOCOL_VIOLATION = "Protocol Violation"
    BAD_CLIENT_PROTOCOL_VERSION = "Bad Client Protocol Version"
    MAXIMUM_CONNECTIONS = "Maximum Connections Exceeded"
    MAXIMUM_ACCOUNT_CONNECTIONS = "Maximum Account Connections Exceeded"
    MAXIMUM_PAYLOAD = "Maximum Message Payload Exceeded"
    MAXIMUM_CONTROL_LINE = "Maximum Control Line Exceeded"
    MAXIMUM_SUBSCRIPTIONS = "Maximum Subscriptions Exceeded"
    SERVER_SHUTDOWN = "Server Shutdown"
    MISSING_ACCOUNT = "Missing Account"
    CREDENTIALS_REVOKED = "Credentials Revoked"
    HEADER_VIOLATION = "Message Header Violation"
    NO_RESPONDERS_NEEDS_HEADERS = "No Responders Requires Headers"
    KICKED = "Kicked"
