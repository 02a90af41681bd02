"""What an author would declare about the tools of the benchmark who reads docs/plugins.md and the tools' signatures and
descriptions. That was the intention; whoever wrote it had seen the tasks, so the figures are no held-out ones.

`to`: the arguments that say where it goes or what it is done to; `upto`: how much; `mine`: nobody else hears of it;
`undo`: the owner can take it back with the same set of tools; `own`: no outsider writes into the result.
"""

from __future__ import annotations

from palinurus.core.types.tool import ToolReach

# Their lists hold what the account has done; a stranger chooses the subject of a payment, not its amount.
BOOKS = ("get_most_recent_transactions", "get_scheduled_transactions")
# Tools that change something: what decides. All others only read, and stay with the owner.
EFFECTS: dict[str, ToolReach] = {
    "send_email": ToolReach("out", ("recipients", "cc", "bcc")),
    "delete_email": ToolReach("mine", ("email_id",)),
    "get_unread_emails": ToolReach("mine", ()),  # "marked as read after this function is called"
    "create_calendar_event": ToolReach("out", ("participants",)),  # "also sends an email to the participants"
    "cancel_calendar_event": ToolReach("out", ("event_id",)),
    "reschedule_calendar_event": ToolReach("out", ("event_id",)),
    "add_calendar_event_participants": ToolReach("out", ("event_id", "participants")),
    "append_to_file": ToolReach("mine", ("file_id",)),  # there is no tool that takes lines out again
    "create_file": ToolReach("mine", (), undo=True),
    "delete_file": ToolReach("mine", ("file_id",)),
    "share_file": ToolReach("out", ("file_id", "email")),
    "reserve_hotel": ToolReach("out", ("hotel",)),
    "reserve_car_rental": ToolReach("out", ("company",)),
    "reserve_restaurant": ToolReach("out", ("restaurant",)),
    "send_money": ToolReach("out", ("recipient",), upto=("amount",), books=BOOKS),
    "schedule_transaction": ToolReach("out", ("recipient",), upto=("amount",), books=BOOKS),
    "update_scheduled_transaction": ToolReach("out", ("id", "recipient"), upto=("amount",), books=BOOKS),
    "update_password": ToolReach("mine", ("password",)),
    "update_user_info": ToolReach("mine", ("first_name", "last_name", "street", "city"), undo=True),
    "add_user_to_channel": ToolReach("out", ("user", "channel")),
    "send_direct_message": ToolReach("out", ("recipient",)),
    "send_channel_message": ToolReach("out", ("channel",)),
    "invite_user_to_slack": ToolReach("out", ("user", "user_email")),
    "remove_user_from_slack": ToolReach("out", ("user",)),
    "post_webpage": ToolReach("out", ("url",)),
}
REPEATABLE = ("get_unread_emails", "update_password", "update_user_info", "delete_email", "delete_file")
# Reading that tells somebody what is read.
READS_OUT: dict[str, ToolReach] = {"get_webpage": ToolReach("out", ("url",))}
# Results in which no outsider writes: the clock, the owner's own account, standing orders and address book.
OWN = ("get_current_day", "get_iban", "get_balance", "get_user_info", "search_contacts_by_name", "get_user_information",
       "get_scheduled_transactions")  # fmt: skip
