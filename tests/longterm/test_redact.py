import re

import pytest

from langgraph_memory.longterm.redact import redact

# Put together here, so that no scanner takes the tests for a leak.
A36 = "Zx9Qw7Er5Ty3Ui1Op8As6Df4Gh2Jk0Lz9Xc7"
SECRETS = {
    "OpenAI": ("the key is sk-" + A36[:24], A36[:24]),
    "OpenAI project": ("use sk-proj-" + A36 + "_ab-cd", A36),
    "Anthropic": ("sk-ant-api03-" + A36, A36),
    "OpenRouter": ("sk-or-v1-" + "0a1b2c3d" * 8, "0a1b2c3d"),
    "Stripe": ("sk_live_" + A36[:24], A36[:24]),
    "GitHub": ("push with ghp_" + A36, A36),
    "GitHub fine": ("github_pat_11AB" + A36, A36),
    "GitLab": ("glpat-" + A36[:20], A36[:20]),
    "AWS id": ("AKIA" + "IOSFODNN7EXAMPLE", "IOSFODNN7"),
    "AWS secret": ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtnFEMI"),
    "Slack": ("xoxb-" + "2345678901-abcdefABCDEF", "abcdefABCDEF"),
    "Google": ("AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "abcdefghij"),
    "Hugging Face": ("hf_" + A36[:34], A36[:34]),
    "npm": ("npm_" + A36, A36),
    "SendGrid": ("SG." + A36[:22] + "." + A36, A36),
    "JWT": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN", "dozjgNryP4J3jVmN"),
    "bearer": ("Authorization: Bearer abcDEF123456ghiJKL", "abcDEF123456"),
    "bearer alone": ("curl -H 'bearer 8f7d6c5b4a39281706abcdef'", "8f7d6c5b"),
    "x-api-key": ("x-api-key: 1234abcd5678efgh", "1234abcd"),
    "Telegram": ("bot 123456789:AA" + "Ab1" * 11, "Ab1Ab1"),
    "private key": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    "cut private key": ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk", "b3BlbnNza"),
    "PGP": ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nxyz123\n-----END PGP PRIVATE KEY BLOCK-----", "xyz123"),
    "Postgres": ("postgres://ada:hunter2@db.example/harbour", "hunter2"),
    "Redis without user": ("redis://:s3cr3t@cache:6379/0", "s3cr3t"),
    "Mongo": ("mongodb+srv://root:p%40ss@cluster.example", "p%40ss"),
    "password": ("password: hunter2", "hunter2"),
    "password of letters": ("password: correcthorse", "correcthorse"),
    "quoted": ('{"password": "open sesame"}', "open"),
    "env": ("export DB_PASSWORD=hunter2", "hunter2"),
    "suffix": ("PASSWORD_PROD=hunter2", "hunter2"),
    "in a sentence": ("My password is hunter2, remember it.", "hunter2"),
    "for something": ("the password for the router is Tide!Pool", "Tide!Pool"),
    "pin": ("My PIN is 4711.", "4711"),
    "pin assigned": ("PIN: 4711", "4711"),
    "pin longer than the name of one": ("The PIN is GPIO171717", "GPIO171717"),
    "password like a pin": ("The password is GPIO17", "GPIO17"),
    "api key": ("api_key = 'abcd1234efgh'", "abcd1234efgh"),
    "client secret": ("client_secret: Zm9vYmFy", "Zm9vYmFy"),
    "German": ("Passwort: hunter2", "hunter2"),
    "German sentence": ("Das Passwort für das WLAN lautet Hafen2031!", "Hafen2031"),
    "French": ("mot de passe : hunter2", "hunter2"),
    "Spanish": ("La contraseña es hunter2", "hunter2"),
    "Portuguese": ("senha: hunter2", "hunter2"),
    "Russian": ("пароль: hunter2", "hunter2"),
    "Russian sentence": ("Мой пароль - hunter2", "hunter2"),
    "Chinese": ("密码：hunter2", "hunter2"),
    "Chinese sentence": ("我的密码是hunter2。", "hunter2"),
    "Chinese traditional": ("密碼是 abc123", "abc123"),
    "Japanese": ("パスワードはhunter2です", "hunter2"),
    "Korean": ("비밀번호는 hunter2", "hunter2"),
    "Arabic": ("كلمة المرور: hunter2", "hunter2"),
    "Hindi": ("पासवर्ड: hunter2", "hunter2"),
    "Docker Hub": ("dckr_pat_" + A36[:24], A36[:24]),
    "Linear": ("lin_api_" + A36, A36),
    "Notion": ("ntn_" + A36 + A36[:8], A36),
    "Figma": ("figd_" + A36, A36),
    "GitLab runner": ("glrt-" + A36[:20], A36[:20]),
    "Mem0": ("m0-" + A36, A36),
    "glued": ("PGPASSWORD=hunter2 psql -h db", "hunter2"),
    "glued of letters": ("PGPASSWORD=correcthorse psql", "correcthorse"),
    "glued in quotes": ("export MYSQLPASS='open sesame'", "sesame"),
    "glued, small": ("dbpassword=hunter2", "hunter2"),
    "connection string": (
        "AccountName=x;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmE+tlC/DXJ==;Suffix=y",
        "Eby8vdM02xNOcqFlqUwJP",
    ),
    "camel case": ("const dbPassword = 'hunter2'", "hunter2"),
    "camel case key": ('{"stripeKey": "abcd1234efgh5678"}', "abcd1234"),
    "in JSON in JSON": ('{\\"STRIPE_KEY\\": \\"abcd1234efgh5678\\"}', "abcd1234"),
    "csh": ("setenv X_KEY abcd1234efgh5678", "abcd1234"),
    "fish": ("set -gx X_KEY abcd1234efgh5678", "abcd1234"),
    "Windows for good": ('setx X_KEY "abcd1234efgh5678"', "abcd1234"),
    "Dockerfile": ("ENV X_KEY abcd1234efgh5678", "abcd1234"),
    "subscription header": ("Ocp-Apim-Subscription-Key: 0a1b2c3d4e5f60718293a4b5c6d7e8f9", "0a1b2c3d"),
    "licence": ("LICENSE_KEY=ABCD-1234-EFGH-5678", "ABCD-1234"),
    "key behind its word": ("API key abcd1234efgh5678ijkl", "abcd1234"),
    "key behind a Chinese word": ("密钥abcd1234efgh5678ijkl", "abcd1234"),
    "key in brackets": ("the access token (abcd1234efgh5678ijkl)", "abcd1234"),
    "curl": ("curl -u ada:hunter2 https://x", "hunter2"),
    "curl, glued": ("curl -sSuada:hunter2 https://x", "hunter2"),
    "curl, long": ("curl --user ada:hunter2 https://x", "hunter2"),
    "curl, equals": ("curl --user=ada:hunter2 https://x", "hunter2"),
    "curl, quoted": ("curl -u 'ada:open sesame' https://x", "sesame"),
    "curl behind a header": ("curl -H 'Accept: a; b | c' -u ada:hunter2 https://x", "hunter2"),
    "curl over lines": ("curl https://x \\\n  -u ada:hunter2", "hunter2"),
    "curl through a proxy": ("curl --proxy-user ada:hunter2 https://x", "hunter2"),
    "wget": ("wget --user=ada --password=hunter2 https://x", "hunter2"),
    "wget for FTP": ("wget --ftp-password=hunter2 ftp://x", "hunter2"),
    "option": ("mysql --password hunter2 -h db", "hunter2"),
    "Slack hook": ("https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24, "T00000000"),
    "Discord hook": ("https://discord.com/api/webhooks/123456789012345678/" + A36, A36),
    "old Discord hook": ("https://discordapp.com/api/v9/webhooks/1234567/" + A36, A36),
    "Teams hook": ("https://a.webhook.office.com/webhookb2/0a1b-2c@3d/IncomingWebhook/5e6f7a8b/9c0d", "5e6f7a8b"),
    "Azure flow": ("https://x.logic.azure.com:443/workflows/1/run?sp=%2Ft&sv=1.0&sig=" + A36, A36),
    "Telegram bot": ("https://api.telegram.org/bot123456789:" + "AA" + A36 + "/sendMessage", A36),
    "Feishu hook": ("https://open.feishu.cn/open-apis/bot/v2/hook/123e4567-e89b-12d3-a456-426614174000", "e89b"),
    "WeCom hook": (
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693a91f6-7xxx-4bc4-97a0-0ec2sifa5aaa",
        "693a91f6",
    ),
    "Visa": ("card 4111 1111 1111 1111, please", "4111"),
    "Visa glued": ("card 4012888888881881", "4012888888881881"),
    "Mastercard": ("5555-5555-5555-4444", "5555-5555"),
    "Amex": ("3782 822463 10005", "822463"),
}
HARMLESS = [
    "commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "2fd4e1c",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "123e4567-e89b-12d3-a456-426614174000",
    "order TK-204-88231 from 2031-04-12",
    "the order id is 4111111111111112",
    "订单号 2031041200012345",
    "/home/ada/harbour/src/password_reset.py",
    "C:\\Users\\ada\\secrets\\token.py",
    "call +49 170 1234567 or 030 123456",
    "call 138 1234 5678",
    "https://harbour.example/reset?step=2",
    "https://harbour.example:8443/a@b",
    "ssh://git@github.com:22/ada/harbour.git",
    "mail ada@harbour.example",
    "The password is required.",
    "the password is wrong",
    "Password: required",
    "password: str",
    "password=os.environ['DB_PASSWORD']",
    "password: ${DB_PASSWORD}",
    "API_KEY=<your key>",
    "The secret is to keep it simple.",
    "the token is expired",
    "max_tokens: 4096",
    "tokens: 12000 of 128000",
    "The token count is 4000",
    "token = get_token(user)",
    "const apiKey = await getKey(model)",
    "result.apiKey = args[++i];",
    "passwords are hashed with argon2",
    "I forgot my password",
    "密码是什么？",
    "忘记密码了",
    "Der Schlüssel liegt unter der Matte.",
    "skip-to-content-and-other-things",
    "sk-learn-like-pipelines-are-nice",
    "task-management-system-for-harbours",
    "bearer of good news everyone",
    "The basic idea everyone understands",
    "python3.11.4 and numpy 1.26.4",
    "ISBN 978-3-16-148410-0",
    "4-4-2 formation",
    "0000 0000 0000 0000",
    "DE89 3704 0044 0532 0130 00",
    "1700000000000000",
    "base64 is what data:image/png uses",
    "Ada's pin board is blue",
    "She went on a spin: around the block",
    "The LED pin is GPIO17.",
    "led_pin = GPIO_4",
    "Pin: GPIO17",
    "the key=value form",
    "PRIMARY KEY (id)",
    "PRIMARY_KEY=user_id",
    "SORT_KEY = created_at_2",
    "sort key: created_at",
    "partitionKey: abcd1234efgh5678",
    "PUBLIC_KEY=abcd1234efgh5678",
    "PUBLIC_KEY_PATH=/etc/ssl/a.pem",
    "SSH_KEY=~/.ssh/id_ed25519",
    "TLS_KEY=C:\\\\certs\\\\a.pem",
    "TLS_KEY=server2031.pem",
    "REDIS_KEY=user:4711",
    "TRANSLATE_KEY=menu.item_42",
    "STRIPE_KEY = os.environ['STRIPE_KEY2']",
    "STRIPE_KEY=load_key2(path)",
    "STRIPE_KEY=$STRIPE_KEY_2031",
    "STRIPE_KEY=<your-key-2031>",
    "key: C major",
    "key: abcd1234efgh5678",
    "HOTKEY=Ctrl+Shift+K",
    "ENTER_KEY=0x0000000D",
    "keyboard=qwerty",
    "monkey: banana1234banana",
    "bypass: 4 lanes",
    "COMPASS=north4711",
    "the API key rotation is on Monday",
    "API key rotation is on Monday",
    "API key harbour-2031-rotation-plan",
    "token 123e4567-e89b-12d3-a456-426614174000",
    "the key commit is 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "curl -u flag",
    "curl -u is for users: see man",
    "curl -u $USER:$PASS https://x",
    "docker run -u 1000:1000 image",
    "curl https://x | docker run -u 1000:1000 image",
    "curl https://x\ndocker run --user node:node image",
    "the token count = 4096",
    "max_tokens=4096",
    "maxToken: 4096",
    "password policy: 12 characters",
    "newPassword: string",
    "--password is an option",
    "--max-tokens 4096",
    "https://hooks.slack.com/",
    "https://discord.com/developers/docs/resources/webhook",
    "https://x.example/list?key=chapter",
    "https://api.telegram.org/bot<token>/sendMessage",
    "",
]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_taken_out(name):
    text, secret = SECRETS[name]
    assert secret in text
    assert secret not in redact(text)
    assert "[redacted]" in redact(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays(text):
    assert redact(text) == text


@pytest.mark.parametrize("name", SECRETS)
def test_what_stands_around_it_stays(name):
    text, _ = SECRETS[name]
    found = redact(f"Ada said: {text}\nPier B is booked.")
    assert found.startswith("Ada said: ")
    assert found.endswith("Pier B is booked.") or "cut" in name


@pytest.mark.parametrize("text", [*HARMLESS, *(text for text, _ in SECRETS.values())])
def test_a_second_time_changes_nothing(text):
    assert redact(redact(text)) == redact(text)


AROUND = ["{}", "记住{}。", "запомни: {}, пожалуйста", "تذكر {} من فضلك", "- `{}`", "a\n{}\nb", "> {} <"]
ASSIGNED = [
    "{}={}",
    "export {}={}",
    "export {}='{}'",
    '{} = "{}"',
    "{}: {}",
    "{}: '{}'",
    '"{}": "{}",',
    "'{}' => '{}'",
    "docker run -e {}={} image",
    "ARG {}={}",
    "set {}={}",
    'set "{}={}"',
    '$env:{}="{}"',
    "$Env:{} = '{}'",
    "- {}={}",
    "{}={} ./run.sh",
]
NAMES = [
    "STRIPE_KEY",
    "X_KEY",
    "stripe_key",
    "Stripe-Key",
    "stripeKey",
    "A_TOKEN",
    "PGPASSWORD",
    "DB_PASS",
    "MYSQL_PWD",
]


@pytest.mark.parametrize("form", ASSIGNED)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_assigned_to_the_name_of_a_secret_is_taken_out_and_nothing_else(name, form):
    for around in AROUND:
        text = around.format(form.format(name, "abcd1234efgh5678"))
        assert redact(text) == text.replace("abcd1234efgh5678", "[redacted]")


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_taken_out_wherever_it_stands(name, around):
    text, secret = SECRETS[name]
    assert secret not in redact(around.format(text))


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays_wherever_it_stands(text, around):
    assert redact(around.format(text)) == around.format(text)


def test_of_an_address_stays_what_is_no_secret():
    assert redact("see https://hooks.slack.com/services/T0A/B0A/x1Y2z3.") == (
        "see https://hooks.slack.com/services/[redacted]."
    )
    assert redact("https://api.telegram.org/bot12:abcdefgh-1/getMe") == "https://api.telegram.org/bot[redacted]/getMe"
    assert redact("https://x/?stripe_key=abcd1234efgh5678&page=2") == "https://x/?stripe_key=[redacted]&page=2"


NEAR = [
    *("curl -u ", "curl -u a:$b ", "-u a:bcd ", "'-u a:b", 'curl "', "A_KEY=", "A_KEY=word ", "key=key", "x_", "aB1"),
    *("API key ", "token abcdefghijklmnop", "密钥", "--password ", "--a-", "ENV A_KEY ", "set -x ", "ENV ", "a.b/"),
    *("hooks.slack.com/services/", "discord.com/api/webhooks/1/", "api.telegram.org/bot1:", "&sig=", "?key=a1", "m0-"),
    *('PASSWORD="', "\\", 'key\\"', "_", "KEY ", " ", "=", "webhook.office.com/webhookb2/a", "glrt-", "A1"),
]


def test_user_and_host_of_a_connection_string_stay():
    assert redact("postgres://ada:hunter2@db.example/harbour") == "postgres://ada:[redacted]@db.example/harbour"


def test_long_texts_take_no_time_to_speak_of():
    for text in (
        "password " * 20_000,
        "a_" * 40_000,
        "4111 " * 20_000,
        "x" * 200_000,
        "sk-" * 50_000,
        "://a:" * 30_000,
        *((near * 80_000)[:80_000] for near in NEAR),
    ):
        assert len(redact(text)) == len(text) or re.search("redacted", redact(text))
