"""A real mailbox (Dovecot, from Debian) and a real mail server (Exim, from Debian): TLS and passwords, an answer in its
thread, files, a sender nobody vouches for, another program's mail, what came while we were away, `kill -9`. The person
at the other end is Python's own mail library."""

from __future__ import annotations

import email
import email.policy
import imaplib
import os
import pwd
import re
import smtplib
import ssl
import stat
import subprocess
import tempfile
import time
from email.message import EmailMessage

import channel
import place
from tally import Tally

DOMAIN, HOST = "real.test", "localhost"
PASSWORD = "a-long-pass-phrase"  # Dovecot ends it at a space
DOVECOT = """
base_dir = {root}/run
state_dir = {root}/state
log_path = {root}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{root}/cert.pem
ssl_key = <{root}/key.pem
mail_location = maildir:{root}/boxes/%u
mail_uid = {user}
mail_gid = {group}
first_valid_uid = 1
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={root}/boxes/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {imap}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    auto = subscribe
    special_use = \\Sent
  }}
}}
"""
# It vouches for whom it let in by a password, in the words of RFC 8601, and takes such words of others out.
EXIM = """
primary_hostname = mx.{domain}
domainlist local_domains = {domain}
daemon_smtp_ports = {smtp}
local_interfaces = 127.0.0.1
spool_directory = {root}/spool
log_file_path = {root}/exim-%s.log
pid_file_path = {root}/exim.pid
never_users = root
exim_user = {user}
exim_group = {group}
tls_certificate = {root}/cert.pem
tls_privatekey = {root}/key.pem
tls_advertise_hosts = *
queue_only = false
acl_smtp_rcpt = check_rcpt
acl_smtp_data = check_data
begin acl
check_rcpt:
  accept domains = +local_domains
  deny message = relay not permitted
check_data:
  warn remove_header = Authentication-Results
  accept authenticated = *
    add_header = :at_start:Authentication-Results: mx.{domain}; spf=pass smtp.mailfrom=$authenticated_id
  accept add_header = :at_start:Authentication-Results: mx.{domain}; spf=none smtp.mailfrom=$sender_address
begin routers
boxes:
  driver = accept
  domains = +local_domains
  local_parts = ann : pal
  transport = boxes
begin transports
boxes:
  driver = appendfile
  maildir_format
  directory = {root}/boxes/$local_part_data@{domain}
  create_directory
  user = {user}
  group = {group}
begin retry
* * F,1h,2s
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if eq{{$auth3}}{{{password}}}}}
  server_set_id = $auth2
  server_advertise_condition = ${{if def:tls_in_cipher}}
"""


def drive(cache: str, tally: Tally) -> None:
    """Start both servers, write mails."""
    tally.version = ", ".join((_ask("dovecot", "--version").split()[0], _ask("exim4", "-bV").split()[2]))
    if os.getuid() == 0 and not os.stat("/").st_mode & stat.S_IXOTH:
        raise place.NotInstalled("both servers leave root, and nobody else may look into / here")
    root = tempfile.mkdtemp(prefix="compat-mail-")
    print(f"compat: Dovecot and Exim {tally.version}; logs in {root}", flush=True)
    place.make_certificate(root, HOST)
    ports = {name: place.free_port() for name in ("imap", "smtp")}
    with channel.keep_running(*_start(root, ports)):
        place.need_listening(root, *ports.values())
        box = {"host": HOST, "tlsCaFile": f"{root}/cert.pem"}
        own = {"address": f"pal@{DOMAIN}", "password": PASSWORD, "authservId": f"mx.{DOMAIN}"}
        own |= {"imap": {**box, "port": ports["imap"]}, "smtp": {**box, "port": ports["smtp"], "tls": "starttls"}}
        own |= {"dmPolicy": "allowlist", "allowFrom": [f"ann@{DOMAIN}"]}
        with channel.run_channel(root, "email", own, f"ann@{DOMAIN}") as gateway:
            _talk(gateway, Correspondent(ports, f"{root}/cert.pem"), tally)


def _ask(*line: str) -> str:
    return subprocess.run([*line], capture_output=True, text=True).stdout


def _start(root: str, ports: dict[str, int]) -> list[subprocess.Popen[bytes]]:
    """Both in the foreground. Neither keeps mail of root's, so root makes them somebody else."""
    who = pwd.getpwuid(os.getuid()) if os.getuid() else pwd.getpwnam("mail")
    names = {"root": root, "user": who.pw_name, "group": who.pw_gid, "domain": DOMAIN, "password": PASSWORD, **ports}
    names["group"] = _ask("id", "-gn", who.pw_name).strip()
    for made in ("boxes", "spool"):
        os.makedirs(f"{root}/{made}")
        os.chown(f"{root}/{made}", who.pw_uid, who.pw_gid)
    os.chmod(root, 0o777)
    os.chmod(f"{root}/key.pem", 0o644)
    for name, text in (("dovecot.conf", DOVECOT), ("exim.conf", EXIM)):
        with open(f"{root}/{name}", "w") as out:
            out.write(text.format(**names))
        os.chmod(f"{root}/{name}", 0o644)
    mailbox = place.spawn(["dovecot", "-F", "-c", f"{root}/dovecot.conf"], root, "dovecot-main")
    server = place.spawn(["exim4", "-C", f"{root}/exim.conf", "-bdf", "-q1m"], root, "exim")
    return [mailbox, server]


def _talk(gateway: channel.ChannelGateway, ann: Correspondent, tally: Tally) -> None:
    tally.has("mailbox over TLS with a password", gateway.see_status(), r"email/\S+ +ready")
    first = ann.write("A question", "SAY Hello there.")
    told = ann.wait("A question")
    tally.has("an answer", _text(told), r"^Hello there\.")
    threaded = told["In-Reply-To"] == first and first in (told["References"] or "")
    tally.note("in its thread, to its sender", threaded and f"ann@{DOMAIN}" in (told["To"] or ""), str(told))
    tally.note("marked as a program's", told["Auto-Submitted"] == "auto-replied", str(told))
    ann.write("A file", f"SAY MEDIA:{gateway.chart}")
    files = [part.get_content() for part in ann.wait("A file").iter_attachments()]
    tally.note("a file of ours", files == [channel.CHART], str(files))
    ann.write("With a file", "SAY It came.", ("words.txt", "a file's words\n"))
    tally.has("a mail with a file", _text(ann.wait("With a file")), r"It came\.")
    tally.note("the file is here", "a file's words" in read_tree(os.path.join(gateway.home, "media", "inbound")))
    ann.write("Nobody vouches", "SAY You should not read this.", vouched=False)
    ann.write("A program's", "SAY Nor this.", headers={"Auto-Submitted": "auto-generated"})
    ann.write("A person's", "SAY But this.")
    tally.has("a person's mail after those", _text(ann.wait("A person's")), r"But this\.")
    others = ann.list_subjects()
    tally.note("a sender nobody vouches for is not answered", not any("Nobody" in one for one in others), str(others))
    tally.note("a program's mail is not answered", not any("program" in one for one in others), str(others))
    gateway.kill()
    ann.write("While away", "SAY I am back.")
    gateway.begin()
    tally.has("after kill -9 what came meanwhile is answered", _text(ann.wait("While away")), r"I am back\.")
    ann.write("Later", "SAY All of them.")
    ann.wait("Later")
    twice = [one for one in ann.list_subjects() if ann.list_subjects().count(one) > 1]
    tally.note("nothing twice", not twice, str(ann.list_subjects()))
    sent = ann.list_subjects(f"pal@{DOMAIN}", "Sent")
    tally.note("copies of what was sent are in Sent", len(sent) == len(ann.list_subjects()), str(sent))


def _text(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    return str(body.get_content()).strip() if body is not None else ""


def read_tree(folder: str) -> str:
    """Everything that is in the files of a folder."""
    found = ""
    for above, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(above, name), encoding="utf-8", errors="replace") as source:
                found += source.read()
    return found


class Correspondent:
    """Ann: writes mails and reads her box."""

    def __init__(self, ports: dict[str, int], trust: str) -> None:
        self._ports, self._tls = ports, ssl.create_default_context(cafile=trust)
        self._written = 0

    def write(
        self,
        subject: str,
        text: str,
        file: tuple[str, str] | None = None,
        *,
        vouched: bool = True,
        headers: dict[str, str] | None = None,
    ) -> str:
        """To the agent; without `vouched` as anybody can who knows her address. Returns the Message-ID."""
        self._written += 1
        mail = EmailMessage()
        ident = f"<{self._written}@{DOMAIN}>"
        named = {"From": f"Ann <ann@{DOMAIN}>", "To": f"pal@{DOMAIN}", "Subject": subject, "Message-ID": ident}
        for name, value in (named | (headers or {})).items():
            mail[name] = value
        mail.set_content(text)
        if file is not None:
            mail.add_attachment(file[1], filename=file[0])
        with smtplib.SMTP(HOST, self._ports["smtp"], timeout=60) as server:
            server.starttls(context=self._tls)
            if vouched:
                server.login(f"ann@{DOMAIN}", PASSWORD)
            server.send_message(mail)
        return ident

    def wait(self, subject: str, seconds: float = 90) -> EmailMessage:
        """The answer with this subject, or an empty mail at the end of the time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for mail in self._read():
                if re.search(rf"^Re: {re.escape(subject)}$", mail["Subject"] or ""):
                    return mail
            time.sleep(0.3)
        return EmailMessage(policy=email.policy.default)

    def list_subjects(self, who: str = f"ann@{DOMAIN}", folder: str = "INBOX") -> list[str]:
        return [str(mail["Subject"]) for mail in self._read(who, folder)]

    def _read(self, who: str = f"ann@{DOMAIN}", folder: str = "INBOX") -> list[EmailMessage]:
        box = imaplib.IMAP4_SSL(HOST, self._ports["imap"], ssl_context=self._tls, timeout=60)
        try:
            box.login(who, PASSWORD)
            box.select(folder, readonly=True)
            numbers = box.search(None, "ALL")[1][0].split()
            found = [box.fetch(number.decode(), "(RFC822)")[1][0] for number in numbers]
        finally:
            box.logout()
        raw = [one[1] for one in found if isinstance(one, tuple)]
        return [email.message_from_bytes(one, policy=email.policy.default) for one in raw]
