"""The routes of the Groups API, below `/v2/`."""

from __future__ import annotations

from django.urls import path

from . import groups

G = "v2/groups/<str:group>"

urlpatterns = [
    path("v2/groups", groups.GroupList.as_view()),
    path("v2/groups/my_groups", groups.MyGroups.as_view()),
    path("v2/groups/statuses", groups.Statuses.as_view()),
    path(G, groups.GroupDetail.as_view()),
    path(f"{G}/policies", groups.GroupPolicies.as_view()),
    path(f"{G}/children", groups.GroupChildren.as_view()),
    path(f"{G}/membership_fields", groups.MembershipFields.as_view()),
    path(f"{G}/subscription_admin_verified", groups.SubscriptionVerified.as_view()),
    path("v2/preferences", groups.Preferences.as_view()),
    path("v2/subscription_info/<str:subscription>", groups.SubscriptionInfo.as_view()),
]
