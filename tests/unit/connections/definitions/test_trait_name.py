"""The trait's name that a definition's name becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.connections.definitions.model import trait_name


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("Big Spenders", "big_spenders"),
        ("bigSpenders", "big_spenders"),
        ("Big-Spenders!", "big_spenders"),
        ("  big__spenders ", "big_spenders"),
        ("VIPUsers", "vip_users"),
        ("B2B Customers", "b2b_customers"),
        ("B2BCustomers", "b2b_customers"),
        ("Top10Users", "top10_users"),
        ("30-day actives", "30_day_actives"),
        ("Bob's list", "bobs_list"),
        ("Größte Käufer", "größte_käufer"),
        ("GROSSE KUNDEN", "grosse_kunden"),
        ("हिन्दी समूह", "हिन्दी_समूह"),
        ("Cafe\u0301 fans", "café_fans"),
        ("!!!", ""),
    ],
)
def test_names_become_snake_case(name: str, trait: str) -> None:
    """Words are told apart by spaces, signs and capitals; letters of every script stay."""
    assert trait_name(name) == trait


@given(st.text(max_size=30))
def test_a_trait_name_is_its_own(name: str) -> None:
    """A name that is a trait's name already stays, and none begins or ends with a line or has two in a row."""
    trait = trait_name(name)
    assert trait_name(trait) == trait
    assert trait == trait.strip("_")
    assert "__" not in trait
