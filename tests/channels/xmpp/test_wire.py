"""SCRAM against the example of its RFC."""

from __future__ import annotations

import base64

import pytest

from palinurus.channels.xmpp.wire import ScramProof


def test_the_example_of_rfc_7677() -> None:
    proof = ScramProof("user", "pencil", "sha256", "rOprNGfwEbeRWgbNEkqO")
    assert proof.open() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    answer = proof.answer(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert answer == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    proof.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(ValueError):
        proof.check(b"v=" + base64.b64encode(bytes(32)))


def test_a_server_that_changes_the_nonce_is_not_answered() -> None:
    with pytest.raises(ValueError):
        ScramProof("user", "pencil", "sha256", "mine").answer(b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
