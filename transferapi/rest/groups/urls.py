"""The routes of the Groups API, below `/v2/`."""

from __future__ import annotations

from django.urls import path

from . import views

G = "v2/groups/<str:group>"

urlpatterns = [
    path("v2/groups", views.GroupList.as_view()),
    path("v2/groups/my_groups", views.MyGroups.as_view()),
    path("v2/groups/statuses", views.Statuses.as_view()),
    path(G, views.GroupDetail.as_view()),
    path(f"{G}/policies", views.GroupPolicies.as_view()),
    path(f"{G}/children", views.GroupChildren.as_view()),
    path(f"{G}/membership_fields", views.MembershipFields.as_view()),
    path(f"{G}/subscription_admin_verified", views.SubscriptionVerified.as_view()),
    path("v2/preferences", views.Preferences.as_view()),
    path("v2/subscription_info/<str:subscription>", views.SubscriptionInfo.as_view()),
]
