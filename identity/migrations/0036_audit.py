import django.db.models.functions.datetime
from django.db import migrations, models

#: A row is never changed, nor deleted in its first 30 days; the time of a row is the database's.
_GUARD = """
CREATE FUNCTION identity_audit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.at := clock_timestamp();
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' AND TG_LEVEL = 'ROW' AND OLD.at < clock_timestamp() - interval '30 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER identity_audit_rows BEFORE INSERT OR UPDATE OR DELETE ON identity_auditevent
    FOR EACH ROW EXECUTE FUNCTION identity_audit_guard();
CREATE TRIGGER identity_audit_table BEFORE TRUNCATE ON identity_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION identity_audit_guard();
"""
_NO_GUARD = """
DROP TRIGGER identity_audit_table ON identity_auditevent;
DROP TRIGGER identity_audit_rows ON identity_auditevent;
DROP FUNCTION identity_audit_guard();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0035_sign_up'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('what', models.CharField(max_length=48)),
                ('user_id', models.UUIDField(null=True)),
                ('username', models.CharField(blank=True, default='', max_length=150)),
                ('actor_id', models.UUIDField(null=True)),
                ('actor', models.CharField(blank=True, default='', max_length=150)),
                ('way', models.CharField(blank=True, default='', max_length=16)),
                ('address', models.CharField(blank=True, default='', max_length=64)),
                ('details', models.JSONField(default=dict)),
            ],
            options={
                'indexes': [models.Index(fields=['at', 'id'], name='audit_by_time'), models.Index(fields=['user_id', 'id'], name='audit_by_user')],
            },
        ),
        migrations.RunSQL(_GUARD, _NO_GUARD),
    ]
