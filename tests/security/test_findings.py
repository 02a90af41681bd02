"""Every finding of the red team of 16 November 2026, of later looks at what was added since, and every attack that
knew the gate, with the tests that prove it held now. The names are checked; where one is renamed, so it must be here.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# finding -> `file: test` (several by ";"); "told:" for what is open and said so, with where
FINDINGS: dict[str, str] = {
    "F1 files by name": "security/test_swaps.py: test_no_reader_follows_what_was_swapped_in;"
    "security/test_swaps.py: test_a_swapper_that_never_rests",
    "F2 modes and owners": "tools/sandbox/test_proof.py: test_nothing_gets_out_but_what_is_told",
    "F3 file tools without containment": "tools/files/test_bounds.py: *",
    "F4 write as the owner": "gateway/test_rights.py: test_no_command_acts_over_http_whatever_the_headers_say;"
    "gateway/test_rights.py: test_every_route_asks_the_credential_and_nothing_else",
    "F5a stored rules outside": "tools/commands/test_guard.py: test_one_yes_outside_is_no_rule_where_the_agent_writes",
    "F5b taint before rules": "tools/commands/test_guard.py: test_taint_goes_before_rules",
    "F5c links": "tools/commands/test_guard.py: test_the_card_names_the_code_that_is_read_and_where_links_lead",
    "F5d code read indirectly": "tools/commands/test_guard.py: test_code_that_is_read_indirectly_is_bound_too",
    "F6 what outlives a command": "tools/sandbox/test_keeper.py: test_a_daemon_without_marks_ends_with_its_command;"
    "tools/sandbox/test_keeper.py: test_a_killed_gateway_leaves_nothing",
    "F6 fork bomb": "tools/sandbox/test_keeper.py: test_a_fork_bomb_stays_small_and_the_next_command_runs;"
    "tools/sandbox/test_keeper.py: test_one_signal_reaches_all_of_a_bomb_also_those_born_meanwhile",
    "F7 token and port": "cli/reach/test_client.py: test_something_else_on_the_port_is_no_gateway_and_sees_no_token;"
    "cli/reach/test_client.py: test_both_loopbacks_are_taken",
    "F8 changes in a clean session": "security/test_steps.py: "
    "test_the_first_command_of_a_clean_session_does_not_replace_the_soul",
    "F9 the watch overrun": "tools/test_persona.py: test_a_flood_of_files_hides_nothing",
    "F10 network and taint": "security/test_steps.py: test_what_curl_printed_is_from_the_web;"
    "security/test_steps.py: test_a_readme_has_a_makefile_written_and_run",
    "F11 people who are not the owner": "security/test_outsiders.py: test_others_do_not_use_the_machine;"
    "security/test_outsiders.py: test_each_has_a_folder_and_a_home_of_their_own",
    "F12 code from a workspace": "plugins/test_scripts.py: test_what_lies_in_a_workspace_needs_the_owners_word",
    "F13 the agent that would run": "flow/test_webhooks.py: "
    "test_the_agent_that_would_run_is_judged_not_the_name_in_the_request",
    "F14 time that grows": "test_growth.py: test_patterns_are_linear;test_growth.py: test_parsers_are_linear",
    "F15 root's private files": "tools/sandbox/test_proof.py: test_nothing_gets_out_but_what_is_told",
    "F16 parsers of foreign formats": "tools/web/test_reader.py: *",
    "F17 keys of skills": "flow/test_skill_keys.py: test_only_who_follows_the_skill_has_its_key",
    "F18 the agent makes itself last": "security/test_steps.py: "
    "test_the_first_job_that_nobody_asked_for_is_asked_about_in_a_clean_session;"
    "tools/program/test_gateway.py: test_harmless_keys_are_changed_and_only_from_what_was_read",
    "F19 weak settings": "config/sections/test_weakening.py: test_a_planted_mistake_is_found_and_told_with_a_way_out;"
    "config/sections/test_weakening.py: test_an_ordinary_config_has_none",
    "low: owner locked out": "gateway/test_server.py: test_ten_guesses_a_minute_and_the_right_token_passes_at_once",
    "low: a page's links": "core/policy/test_taint.py: test_which_of_a_pages_links_is_opened_is_told_only_a_few_times",
    "low: private addresses of commands": "told: UDP and private addresses",
    "low: names and command lines outside": "told: names and sizes of files outside can be seen",
    "low: filters of git": "workspace/install/test_source.py: test_a_repository_without_the_users_filters",
    "low: skills that drifted": "workspace/install/test_packages.py: test_what_changes_afterwards_is_noticed",
    "low: tool texts of MCP": "tools/mcp/test_pins.py: *",
    "low: old secrets in copies": "config/test_load.py: test_a_secret_that_was_changed_leaves_the_copies",
    "low: sixty strangers": "inbox/test_access.py: test_a_crowd_of_strangers_costs_no_more_than_a_few",
    "low: TMPDIR outside": "agent/plan/test_levels.py: test_outside_containment_the_temporary_folder_is_not_the_agents",
    "low: a stuck page": "tools/web/test_reader.py: test_a_stuck_page_holds_up_nobody_else",
    "low: namespaces in bubblewrap": "tools/sandbox/test_proof.py: test_what_is_open_is_told",
    "suspected: claude": "agent/runtimes/test_claude.py: test_what_files_of_the_workspace_configure_does_not_run",
    "suspected: truncate before 6.2": "tools/sandbox/test_probe.py: test_what_is_open_comes_with_a_way_out",
    "suspected: a squatter on ::1": "cli/reach/test_client.py: "
    "test_who_sits_on_the_other_loopback_keeps_the_gateway_from_starting",
    "suspected: races of parent folders": "security/test_swaps.py: test_no_writer_follows_what_was_swapped_in",
    "suspected: a process as a relay": "security/test_steps.py: test_a_shell_from_before_is_not_typed_into;"
    "security/test_steps.py: test_a_commands_own_question_is_answered_unasked",
    "suspected: new files in /etc": "tools/sandbox/test_system.py: test_a_private_file_that_comes_later_is_as_private",
    # a second look at what was added since, 18 November 2026
    "a channel read as a thread": "security/test_elsewhere.py: test_a_thread_on_discord_is_one_of_its_channel;"
    "security/test_elsewhere.py: test_a_search_on_discord_stays_in_its_channel",
    "posts of other chats, paths in ids": "security/test_elsewhere.py: "
    "test_a_post_on_mattermost_is_one_of_its_channel;"
    "security/test_elsewhere.py: test_a_message_in_google_chat_is_one_of_its_space;"
    "security/test_elsewhere.py: test_a_message_in_feishu_is_one_of_its_chat",
    "an empty secret": "security/test_elsewhere.py: test_an_empty_secret_opens_nothing",
    "bytes that are no text": "gateway/test_http.py: test_bytes_that_are_no_text_are_no_fault_of_ours;"
    "channels/web/test_hook.py: test_bytes_that_are_no_text_are_a_wrong_signature",
    # attacks that know the gate
    "file_makefile": "security/test_steps.py: test_a_readme_has_a_makefile_written_and_run",
    "file_git_push, planted_hook, planted_claude_settings": "security/test_steps.py: "
    "test_nothing_is_planted_for_other_programs;"
    "tools/test_persona.py: test_files_that_steer_other_programs_are_held_after_untrusted_content",
    "curl_is_local": "security/test_steps.py: test_what_curl_printed_is_from_the_web",
    "planted_code": "security/test_steps.py: test_planted_code_has_no_network_in_a_fresh_session",
    "typed_into_shell": "security/test_steps.py: test_a_shell_from_before_is_not_typed_into",
    "links": "core/policy/test_taint.py: test_which_of_a_pages_links_is_opened_is_told_only_a_few_times",
    "quoted_after_new": "core/policy/test_taint.py: test_what_the_owner_quotes_is_not_the_owners_word",
    "joined_sources": "core/policy/test_taint.py: "
    "test_each_of_several_sources_counts_and_an_unknown_one_is_from_outside",
    "dojo_webpage": "security/test_errands.py: test_no_attack_on_an_errand_comes_through",
    "pulled_soul": "security/test_steps.py: test_the_first_command_of_a_clean_session_does_not_replace_the_soul",
    "laundered_contain_off": "security/test_steps.py: test_a_page_laundered_through_a_note_is_still_a_page",
    "pasted_mail": "security/test_steps.py: test_a_mail_that_was_pasted_gives_no_orders",
    "answer_preview": "channels/telegram/test_channel.py: test_no_address_of_an_answer_is_fetched_for_a_preview;"
    "channels/discord/test_outbound.py: test_no_address_of_an_answer_is_fetched_for_a_preview",
    "mcp_read_only, mcp_description": "tools/mcp/test_pins.py: *;tools/mcp/test_servers.py: *",
    "embedded_tool": "app/test_embed.py: test_tools_of_the_program_are_gated_and_the_program_may_answer",
    # the joints between features, 19 November 2026
    "jobs and wake-ups of a shared turn": "security/test_jobs.py: "
    "test_a_job_made_where_others_read_along_is_told_nothing_the_owner_noted;security/test_jobs.py: "
    "test_a_wake_up_from_where_others_read_along_is_told_nothing_either",
    "wake-ups of a client": "security/test_jobs.py: "
    "test_a_client_that_may_write_wakes_nobody_who_knows_what_the_owner_noted",
    "words laundered by a job": "security/test_jobs.py: "
    "test_words_of_others_stay_theirs_in_a_job_that_is_changed_and_in_a_wake_up;"
    "security/test_jobs.py: test_who_looks_at_a_job_has_read_what_it_says",
    "promises": "security/test_jobs.py: test_a_promise_holds_the_words_its_conversation_has_seen",
    "jobs of other agents": "security/test_jobs.py: test_jobs_reach_no_agent_that_letters_do_not_reach",
    "a runtime chosen by the agent": "tools/program/test_gateway.py: "
    "test_what_protects_the_owner_is_refused_and_nothing_is_written",
    "words of a plugin's hook": "security/test_hooks.py: test_an_address_that_a_plugin_adds_is_asked_about",
    "imported conversations": "cli/migrate/test_migrate.py: test_what_a_group_said_is_not_the_owners_word;"
    "cli/migrate/test_migrate.py: test_what_parts_of_the_other_program_said_is_not_the_owners_word",
    "steering with somebody else's rights": "security/test_subagents.py: *",
    "a summary between": "security/test_subagents.py: test_what_was_shortened_still_taints_what_a_sub_agent_says",
    "doubts of ours": "security/test_hooks.py: test_what_the_program_says_of_an_answer_is_not_the_owners_word",
    "a client's canvas": "gateway/methods/test_canvas.py: "
    "test_what_a_client_without_the_owners_rights_does_there_is_its_word",
    "a client's requests": "security/test_clients.py: test_earlier_messages_of_a_request_are_whose_it_is;"
    "security/test_clients.py: "
    "test_what_a_clients_tool_returned_taints_also_in_a_request_that_brings_the_conversation_along",
    "a client's tool calls": "security/test_clients.py: "
    "test_a_tool_with_effects_is_called_in_a_run_of_its_own_name",
    "pictures": "security/test_clients.py: test_words_in_a_picture_are_pasted_ones",
    "beside a conversation": "security/test_clients.py: "
    "test_what_is_asked_beside_a_conversation_is_asked_after_it",
}  # fmt: skip


@cache
def list_tests(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in tree.body if isinstance(one, kinds) and one.name.startswith("test_"))


@pytest.mark.parametrize("finding", FINDINGS)
def test_the_proof_of_a_finding_is_there(finding: str) -> None:
    for proof in FINDINGS[finding].split(";"):
        file, _, name = proof.partition(": ")
        if file == "told":
            told = " ".join((TESTS.parent / "docs" / "security.md").read_text().split())
            assert name in told, finding
        else:
            assert name in list_tests(file) or (name == "*" and list_tests(file)), f"{finding}: {proof}"


def test_the_files_of_the_other_table_are_there() -> None:
    """README.md beside this file says which test proves which rule."""
    named = re.findall(r"`([\w/]+(?:\.py|/))`", (TESTS / "security" / "README.md").read_text())
    assert len(named) > 40 and [name for name in named if not (TESTS / name).exists()] == []
