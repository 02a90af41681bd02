"""A reply -> a mail, and the mail to an SMTP server. Blocking: called from a thread. Every refusal has its word."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import smtplib
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP as LINES
from email.utils import format_datetime, formataddr

import msgspec

from palinurus.channels.email.inbound import MESSAGE_ID
from palinurus.channels.email.wire import MailServer, make_tls_context
from palinurus.channels.kit import ChannelFile
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import SendFailure, SendReceipt, SendResult, SendTrouble
from palinurus.core.types.outbound import Reply

TIMEOUT = 30.0  # seconds for one answer of the server
LATER = 60.0  # seconds until the next try, when a server only says "not now"
# Enhanced status codes (RFC 3463), first match wins; a 5.x.x is for good, a 4.x.x for now.
_CODES: tuple[tuple[str, SendTrouble], ...] = (
    (r"5\.1\.[0-36]|5\.2\.1", "gone"),
    (r"5\.3\.4|5\.2\.3", "long"),
    (r"5\.7\.8|5\.7\.9|5\.7\.0 auth", "signed_out"),
    (r"5\.7\.\d+", "blocked"),
    (r"4\.7\.\d+|4\.2\.1|4\.5\.3|4\.3\.2", "limited"),
    (r"4\.\d\.\d+", "down"),
)
_NUMBERS: dict[int, SendTrouble] = {
    421: "down", 450: "limited", 451: "down", 452: "limited", 530: "signed_out", 534: "signed_out", 535: "signed_out",
    550: "gone", 551: "gone", 552: "long", 553: "gone", 554: "refused",
}  # fmt: skip


class MailEnvelope(msgspec.Struct, frozen=True):
    """What a mail needs besides the reply."""

    address: str  # ours
    name: str
    subject: str
    references: tuple[str, ...]  # the mails before it, oldest first
    at: int


def make_message_id(client_id: str, address: str) -> str:
    """The same for every try of a reply."""
    return f"<pal.{hashlib.sha256(client_id.encode()).hexdigest()[:32]}@{address.rpartition('@')[2]}>"


def build_mail(reply: Reply, files: Sequence[ChannelFile], envelope: MailEnvelope) -> EmailMessage:
    """As text and, where it is formatted, as HTML beside it."""
    made = EmailMessage(policy=LINES)
    made["From"] = formataddr((_line(envelope.name), envelope.address)) if envelope.name else envelope.address
    made["To"] = reply.target.to
    made["Subject"] = _line(envelope.subject)
    made["Date"] = format_datetime(datetime.fromtimestamp(envelope.at / 1000, UTC))
    made["Message-ID"] = make_message_id(reply.client_id, envelope.address)
    answered = reply.reply_to if MESSAGE_ID.fullmatch(reply.reply_to) else (envelope.references or ("",))[-1]
    if answered:
        made["In-Reply-To"] = answered
        made["References"] = " ".join(dict.fromkeys((*envelope.references, answered)))
    made["Auto-Submitted"] = "auto-replied"  # so that no other program answers it
    made["X-Auto-Response-Suppress"] = "All"
    shown = None if reply.plain else render_markdown(reply.text, "matrix")
    made.set_content(reply.text if shown is None else shown.text, cte="base64")
    if shown is not None and shown.html:
        made.add_alternative(f"<html><body>{shown.html}</body></html>", subtype="html", cte="base64")
    for file in files:
        kind, _, sub = file.mime.partition("/")
        made.add_attachment(
            file.data, maintype=kind or "application", subtype=sub or "octet-stream", filename=_line(file.name)
        )
    return made


def _line(text: str) -> str:
    return " ".join(text.split())[:250]


def send_mail(made: EmailMessage, server: MailServer, to: Sequence[str]) -> SendResult:
    """Hand the mail over. Raises nothing."""
    ident, sender = str(made["Message-ID"]), str(made["From"].addresses[0].addr_spec)
    smtp: smtplib.SMTP | None = None
    handing = False
    try:
        smtp = _connected(server)
        _agreed(*smtp.mail(sender))
        for one in to:
            _agreed(*smtp.rcpt(one))
        handing = True
        _agreed(*smtp.data(made.as_bytes()))
        return SendReceipt(ident)
    except smtplib.SMTPResponseException as exc:
        return explain_smtp_refusal(int(exc.smtp_code), exc.smtp_error, len(list(made.iter_attachments())) > 0)
    except smtplib.SMTPNotSupportedError as exc:
        return SendFailure(f"the mail server cannot do that: {exc}", "refused")
    except (smtplib.SMTPException, OSError) as exc:
        return SendFailure(f"the mail server: {_reason(exc)}", "cut" if handing else "down")
    except ValueError as exc:  # an address or a password that the protocol cannot carry; its words may hold them
        return SendFailure(f"the mail cannot be sent ({type(exc).__name__})", "refused")
    finally:
        if smtp is not None:
            with contextlib.suppress(smtplib.SMTPException, OSError):
                smtp.quit()


def _connected(server: MailServer) -> smtplib.SMTP:
    if server.tls == "on":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=TIMEOUT, context=make_tls_context(server)
        )
    else:
        smtp = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT)
    try:
        if server.tls == "starttls":
            smtp.starttls(context=make_tls_context(server))
        smtp.ehlo()
        _signed_in(smtp, server)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _signed_in(smtp: smtplib.SMTP, server: MailServer) -> None:
    if "PLAIN" in smtp.esmtp_features.get("auth", "").upper().split():  # the library's own way takes only ASCII
        given = base64.b64encode(f"\0{server.user}\0{server.secret.reveal()}".encode()).decode()
        _agreed(*smtp.docmd("AUTH", f"PLAIN {given}"))
    else:
        smtp.login(server.user, server.secret.reveal())


def _agreed(code: int, said: bytes) -> None:
    if not 200 <= code < 300:
        raise smtplib.SMTPResponseException(code, said)


def explain_smtp_refusal(code: int, said: bytes | str, files: bool = False) -> SendFailure:
    """What a refusal means."""
    text = " ".join((said.decode("utf-8", "replace") if isinstance(said, bytes) else said).split())[:300]
    found = next((word for pattern, word in _CODES if re.match(pattern, text)), None)
    word = found or _NUMBERS.get(code) or ("down" if 400 <= code < 500 else "refused")
    if word == "long" and files:
        word = "media"
    return SendFailure(f"the mail server: {code} {text}", word, LATER if word == "limited" else None)


def _reason(exc: Exception) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({exc.verify_message})"
    return str(exc)[:200] or type(exc).__name__
