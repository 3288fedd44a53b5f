"""The routes of Transfer API v0.10, below `/v0.10/`."""

from __future__ import annotations

from django.urls import path

from transferapi.rest import landing
from transferapi.rest.http.request_bodies import LongBodies
from transferapi.rest.push import event_streams, mail_preferences, webhooks

from . import activation_views as activation
from . import bookmark_views as bookmarks
from . import endpoint_views as endpoints
from . import file_views, v2
from . import manager_views as managers
from . import operation_views as operations
from . import sharing_views as sharing
from . import submission_views as submission
from . import task_views as tasks

E = "endpoint/<str:endpoint>"
T = "task/<str:task>"
M = "endpoint_manager"
W = "webhook/<str:webhook>"

urlpatterns = [
    path("long_body", LongBodies.as_view()),
    path("endpoint", endpoints.EndpointCreate.as_view()),
    path("endpoint_search", endpoints.EndpointSearch.as_view()),
    path(E, endpoints.EndpointDetail.as_view()),
    path(f"{E}/server_list", endpoints.ServerList.as_view()),
    path(f"{E}/server", endpoints.ServerCreate.as_view()),
    path(f"{E}/server/<str:server>", endpoints.ServerDetail.as_view()),
    path(f"{E}/ssh_program", endpoints.SshProgram.as_view()),
    path(f"{E}/activation_requirements", activation.RequirementsView.as_view()),
    path(f"{E}/autoactivate", activation.AutoActivate.as_view()),
    path(f"{E}/activate", activation.Activate.as_view()),
    path(f"{E}/deactivate", activation.Deactivate.as_view()),
    path(f"operation/{E}/ls", operations.Ls.as_view()),
    path(f"operation/{E}/destination", operations.DestinationCheck.as_view()),
    path(f"operation/{E}/listing", operations.ListingView.as_view()),
    path(f"operation/{E}/stat", operations.Stat.as_view()),
    path(f"operation/{E}/mkdir", operations.Mkdir.as_view()),
    path(f"operation/{E}/rename", operations.RenameView.as_view()),
    path(f"operation/{E}/symlink", operations.Symlink.as_view()),
    path(f"operation/{E}/file", file_views.FileView.as_view()),
    path(f"operation/{E}/archive", file_views.ArchiveView.as_view()),
    path(f"operation/{E}/upload", file_views.UploadView.as_view()),
    path("submission_id", submission.SubmissionId.as_view()),
    path("transfer", submission.SubmitTransfer.as_view()),
    path("delete", submission.SubmitDelete.as_view()),
    path("transfer/check", submission.CheckTransfer.as_view()),
    path("delete/check", submission.CheckDelete.as_view()),
    path("task_list", tasks.TaskList.as_view()),
    path(T, tasks.TaskDetail.as_view()),
    path(f"{T}/cancel", tasks.TaskCancel.as_view()),
    path(f"{T}/pause", tasks.TaskPause.as_view()),
    path(f"{T}/resume", tasks.TaskResume.as_view()),
    path(f"{T}/confirm_deletion", tasks.ConfirmDeletion.as_view()),
    path(f"{T}/refuse_deletion", tasks.RefuseDeletion.as_view()),
    path(f"{T}/retry", tasks.RetryTask.as_view()),
    path(f"{T}/run_again", tasks.RunAgain.as_view()),
    path(f"{T}/event_list", tasks.EventList.as_view()),
    path(f"{T}/successful_transfers", tasks.SuccessfulTransfers.as_view()),
    path(f"{T}/skipped_errors", tasks.SkippedErrors.as_view()),
    # ---- sharing: shared endpoints, access rules, roles
    path("shared_endpoint", sharing.SharedEndpointCreate.as_view()),
    path(f"{E}/my_shared_endpoint_list", sharing.MySharedEndpointList.as_view()),
    path(f"{E}/shared_endpoint_list", sharing.SharedEndpointList.as_view()),
    path(f"{E}/role_list", sharing.RoleList.as_view()),
    path(f"{E}/role", sharing.RoleCreate.as_view()),
    path(f"{E}/role/<str:role>", sharing.RoleDetail.as_view()),
    path(f"{E}/access_list", sharing.AccessList.as_view()),
    path(f"{E}/access", sharing.AccessCreate.as_view()),
    path(f"{E}/access/<str:access>", sharing.AccessDetail.as_view()),
    # ---- bookmarks
    path("bookmark_list", bookmarks.BookmarkList.as_view()),
    path("bookmark", bookmarks.BookmarkCreate.as_view()),
    path("bookmark/<str:bookmark>", bookmarks.BookmarkDetail.as_view()),
    # ---- pause rules and what managers of endpoints see
    path(f"{E}/my_effective_pause_rule_list", managers.MyEffectivePauseRules.as_view()),
    path(f"{T}/pause_info", managers.PauseInfo.as_view()),
    path(f"{M}/pause_rule_list", managers.PauseRuleList.as_view()),
    path(f"{M}/pause_rule", managers.PauseRuleCreate.as_view()),
    path(f"{M}/pause_rule/<str:pause_rule>", managers.PauseRuleDetail.as_view()),
    path(f"{M}/monitored_endpoints", managers.MonitoredEndpoints.as_view()),
    path(f"{M}/{E}", managers.ManagedEndpoint.as_view()),
    path(f"{M}/{E}/hosted_endpoint_list", managers.HostedEndpointList.as_view()),
    path(f"{M}/{E}/access_list", managers.ManagedAccessList.as_view()),
    path(f"{M}/task_list", managers.ManagedTaskList.as_view()),
    path(f"{M}/{T}", managers.ManagedTaskDetail.as_view()),
    path(f"{M}/{T}/event_list", managers.ManagedEventList.as_view()),
    path(f"{M}/{T}/pause_info", managers.ManagedPauseInfo.as_view()),
    path(f"{M}/{T}/successful_transfers", managers.ManagedSuccessfulTransfers.as_view()),
    path(f"{M}/{T}/skipped_errors", managers.ManagedSkippedErrors.as_view()),
    path(f"{M}/admin_cancel", managers.AdminCancelCreate.as_view()),
    path(f"{M}/admin_cancel/<str:admin_cancel>", managers.AdminCancelDetail.as_view()),
    path(f"{M}/admin_pause", managers.AdminPause.as_view()),
    path(f"{M}/admin_resume", managers.AdminResume.as_view()),
    # ---- mails, webhooks and streams of events
    path("event_stream", event_streams.EventStream.as_view()),
    path(f"{T}/event_stream", event_streams.TaskEventStream.as_view()),
    path("mail_preference", mail_preferences.MailPreferenceView.as_view()),
    path("webhook", webhooks.WebhookCreate.as_view()),
    path("webhook_list", webhooks.WebhookList.as_view()),
    path(W, webhooks.WebhookDetail.as_view()),
    path(f"{W}/test", webhooks.WebhookTest.as_view()),
    path(f"{W}/delivery_list", webhooks.DeliveryList.as_view()),
    # ---- older names, and routes of other products
    path("endpoint_list", endpoints.EndpointList.as_view()),
    path(f"{E}/ls", operations.Ls.as_view()),
    path(f"{E}/mkdir", operations.Mkdir.as_view()),
    path(f"{T}/remove", tasks.TaskRemove.as_view()),
    path(f"{E}/subscription", v2.Subscription.as_view()),
    path(f"{E}/subscription_admin_verified", v2.Subscription.as_view()),
    path("forecast", tasks.ForecastDetail.as_view()),
    path("openapi", landing.OpenApi.as_view()),
]
