"""The tables of transfer tasks. PostgreSQL is the truth: every other component may lose its state (truth 1)."""

from .fields import PathField, TransactionIdField
from .files import File, Item, Space
from .notify import Delivery, Event, Mail, MailPreference, Webhook
from .service import Maintenance, SchemaChange, ServiceProcess
from .task import WITH_ENDS, WITH_OWNERS, AdminCancel, RemovedTask, Task
from .worker import EndpointFailure, Lease, PathMemory, Round, Run, Tally, WorkerProcess

__all__ = [
    "WITH_ENDS",
    "WITH_OWNERS",
    "AdminCancel",
    "Delivery",
    "EndpointFailure",
    "Event",
    "File",
    "Item",
    "Lease",
    "Mail",
    "MailPreference",
    "Maintenance",
    "PathField",
    "PathMemory",
    "RemovedTask",
    "Round",
    "Run",
    "SchemaChange",
    "ServiceProcess",
    "Space",
    "Tally",
    "Task",
    "TransactionIdField",
    "Webhook",
    "WorkerProcess",
]
