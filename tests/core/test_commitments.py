"""Promises, measured: a small corpus of sentences that are some, and of sentences that only look like some."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.commitments import MAX_PROMISES, find_promises, parse_due_time, share_topic

PROMISES = """
I'll check tonight.
I'll check the build again tomorrow morning.
Understood. I will look at the logs this evening.
I'll get back to you with the numbers.
I will remind you about the dentist.
I'll keep an eye on the deployment.
I'll let you know when the backup is finished.
Sure! I'll follow up with Ann on Monday.
I'm going to run the tests again in an hour.
I'll send the summary at 5pm.
I'll try again in 10 minutes.
I will review the rest later today.
I'll report back once the import is through.
I'll check back in half an hour.
I'll monitor the queue tonight.
I’ll write the report tomorrow.
I'll finish the second half this afternoon.
I'll update the page every morning.
I will look into it next week.
I'll keep you posted.
I'll circle back on this by Friday.
I'll notify you as soon as the price drops.
The tests are red. I'll look at them again tomorrow at 9:00.
I'll definitely ask him on Thursday.
I'll prepare the slides by Friday.
I'll take another look tomorrow morning.
I'll have it ready by tonight.
I'll check on the deploy in 20 minutes and tell you.
I'll ping you once it's live.
I'll try once more later.
""".strip().splitlines()

OTHERS = """
I'll check.
I'll check now.
I'll look at the file right away.
Let me check the logs.
I checked the logs last night.
I'll check tonight if you want.
If you like, I'll remind you tomorrow.
Should I remind you tomorrow?
Shall I check again tonight?
Would you like me to check tomorrow?
Just say so and I'll send it tomorrow.
Let me know when you are back and I'll continue tomorrow.
I'll send it as soon as you confirm.
Once you have the key, I'll run it tomorrow.
I'll do it when you're ready.
You can run it tomorrow.
You will get a reminder tomorrow at 9.
The job runs tomorrow at 9.
Reminder set for tomorrow at 9:00.
I won't check tonight.
I will not follow up unless you ask.
I can check tonight.
I could remind you tomorrow.
I might look at it later.
He said: "I'll check tonight."
The mail says “I'll get back to you tomorrow”.
> I'll get back to you tomorrow
`I'll remind you`
A good reply would be: "I'll follow up on Monday."
She wrote: I'll call you tomorrow.
For example: I'll send the file tomorrow.
I'll use the second option.
I'll keep that in mind.
I'll remember that you prefer tea.
I'll be brief.
I'll assume you mean Berlin.
I'll explain: the function returns early.
I'll start with the tests, then the code.
I'll wait.
I'll let you decide.
I'll leave it as it is.
I will use UTC from now on.
Next time I'll check the date first, or tomorrow's entry wins.
We'll see tomorrow.
They will get back to you.
The server will try again in 10 minutes.
Tomorrow it will rain.
I'll need the password to continue tomorrow?
I don't think I'll send it tomorrow.
Tell me the address and then I'll write tomorrow.
Do you want me to wait, or I'll try again in an hour?
I'll never send mail at night.
In this version, I'll see the result at the end.
See you tomorrow!
Done. The report was sent this evening.
I have set up a job that checks it every morning.
I'll put both on the list.
I'd check it tomorrow.
I'll go with the later date.
I'll mark the meeting of next week as private.
I'll walk you through it.
I will do my best.
I'll do a search for flights next week.
I'll look for hotels in Rome for next month.
I'll check the weather for tomorrow.
I'll check what is on your calendar tomorrow.
I'll run a query for orders placed in the last two hours.
I'll write a reminder text you can send tomorrow.
I'll update the schedule so the job runs every day.
I'll see if tomorrow works.
I'll start by listing the events for next week.
I'll summarize the news of this afternoon.
I'll search for trains leaving at 8:30.
I'll monitor the output of this command.
To do this, I'll write a script that runs every hour.
I'll remind you that the API is rate limited.
I'll watch for errors while running this.
I'll draft an email saying I'll get back to you.
I'll add it to the plan and we can revisit later.
I'll run the migration on the later snapshot.
I'll test this with a cron line that fires every day.
I'll review the diff in three parts.
I'll check the log of tonight's run.
I'll update the due date to next week.
I'll write the entry under tomorrow's heading.
I'll look at Monday's numbers.
I'll call the function later in the loop.
I'll set the timer to ring in 5 minutes.
I'll follow up each claim with a source.
I'll start the clock at 8:00.
I'll see you tomorrow.
I'll prepare a table with the flight at 9:40.
I'll message you templates: pick one.
I'll search the archive every week has its own folder.
I'll send the invite with start at 3pm on Tuesday.
""".strip().splitlines()


def test_few_false_alarms_and_few_misses() -> None:
    wrong = [line for line in OTHERS if find_promises(line)]
    missed = [line for line in PROMISES if not find_promises(line)]
    assert len(wrong) / len(OTHERS) < 0.05, wrong
    assert len(missed) / len(PROMISES) < 0.1, missed


def test_in_a_whole_reply() -> None:
    reply = (
        "Here is the fix:\n```\n# I'll check tonight\n```\nIt works. I'll look at the logs again tomorrow; "
        "until then nothing to do.\n- I'll remind you on Monday\n"
    )
    assert list(find_promises(reply)) == [
        "I'll look at the logs again tomorrow;",
        "I'll remind you on Monday",
    ]
    assert len(find_promises("I'll check tonight. " * 9)) == MAX_PROMISES


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("I'll check tonight", "2026-03-10T20:00"),
        ("I'll check tomorrow", "2026-03-11T09:00"),
        ("I'll check tomorrow at 7:30", "2026-03-11T07:30"),
        ("I'll send it at 5pm", "2026-03-10T17:00"),
        ("I'll send it at 8am", "2026-03-11T08:00"),  # today it is over
        ("I'll try in 10 minutes", "2026-03-10T12:10"),
        ("I'll try in half an hour", "2026-03-10T12:30"),
        ("I'll look next week", "2026-03-17T09:00"),
        ("I'll keep you posted", "2026-03-10T13:00"),
        ("I'll send it at 99:99", "2026-03-10T13:00"),
    ],
)
def test_when_it_is_due(text: str, then: str) -> None:
    now = int(datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp() * 1000)
    assert datetime.fromtimestamp(parse_due_time(text, now, "UTC") / 1000, UTC).isoformat()[:16] == then


def test_the_owners_zone_counts() -> None:
    now = int(datetime(2026, 7, 10, 12, tzinfo=UTC).timestamp() * 1000)
    assert datetime.fromtimestamp(parse_due_time("tonight", now, "Europe/Berlin") / 1000, UTC).hour == 18


def test_what_speaks_of_the_same() -> None:
    assert share_topic("I'll remind you of the dentist", "dentist at nine")
    assert not share_topic("I'll remind you tomorrow", "remind me about tomorrow")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    for one in find_promises(text + "I'll " + text):
        assert parse_due_time(one, 0, "UTC") > 0
    assert parse_due_time(text, 1_700_000_000_000, "UTC") > 1_700_000_000_000 - 1
