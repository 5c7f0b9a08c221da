import pytest

from langgraph_memory.longterm.notice import EDGE_CHARS, MOST_CHARS, MOST_ENTRIES, notice
from tests.support.data import load_recordings, needs_recordings

WORTH = {
    "remember": [
        "Please remember that the harbour closes at nine.",
        "Don't forget that the invoice goes to Ada.",
        "Keep in mind that pier B is closed.",
        "请记住我的车牌是蓝色的。",
        "請記住我們的倉庫在三樓。",
        "別忘了我對花生敏感",
        "会議室は三階だと覚えておいてください。",
        "우리 창고는 3층이라는 걸 기억해 주세요.",
        "Запомни, что склад закрыт по субботам.",
        "تذكر أن المستودع مغلق يوم السبت.",
        "Recuerda que el almacén cierra los sábados.",
        "N'oublie pas que l'entrepôt ferme le samedi.",
        "Merk dir, dass das Lager samstags zu ist.",
        "Lembre-se de que o armazém fecha aos sábados.",
        "याद रखना कि गोदाम शनिवार को बंद रहता है।",
    ],
    "preference": [
        "I prefer dark mode in every editor.",
        "I really hate phone calls before ten.",
        "I always use tabs in Go files.",
        "I'm allergic to peanuts.",
        "My favourite tea is Assam.",
        "I don't eat fish.",
        "我喜欢喝绿茶。",
        "我对花生过敏。",
        "我比較喜歡坐靠窗的位置。",
        "私はコーヒーが好きです。",
        "저는 매운 음식을 좋아해요.",
        "Я предпочитаю зелёный чай.",
        "У меня аллергия на арахис.",
        "أنا أحب القهوة بدون سكر.",
        "Me gusta trabajar por la noche.",
        "Je préfère le thé vert.",
        "Ich trinke lieber Tee als Kaffee.",
        "Eu prefiro café sem açúcar.",
        "मुझे हरी चाय पसंद है।",
    ],
    "identity": [
        "My name is Ada Lovelace.",
        "I live in Kiel with two cats.",
        "I work at the harbour office.",
        "I'm a marine engineer.",
        "My daughter's birthday is in May.",
        "I'm currently learning to sail.",
        "今天是我的生日。",
        "我最近在学习攀岩。",
        "你好，我叫张曼婷。",
        "我住在杭州。",
        "我是一名软件工程师。",
        "我在上海工作。",
        "我住在台北，養了兩隻貓。",
        "私の名前は田中です。",
        "大阪に住んでいます。",
        "제 이름은 김민수입니다.",
        "부산에 살고 있어요.",
        "Меня зовут Анна.",
        "Я живу в Казани.",
        "اسمي ليلى وأعيش في القاهرة.",
        "Me llamo Lucía.",
        "Vivo en Sevilla.",
        "Je m'appelle Camille.",
        "J'habite à Lyon.",
        "Ich heiße Jonas.",
        "Ich wohne in Bremen.",
        "Meu nome é Rui.",
        "Moro em Lisboa.",
        "मेरा नाम प्रिया है।",
    ],
    "decision": [
        "We decided to ship the release without the importer.",
        "Let's use SQLite for the index.",
        "We'll go with the blue logo.",
        "我们决定用第二个方案。",
        "我們決定下週搬家。",
        "データベースはSQLiteに決めました。",
        "우리는 파란색으로 하기로 했어요.",
        "Мы решили использовать Postgres.",
        "قررنا استخدام الخطة الثانية.",
        "Decidimos usar el segundo plan.",
        "On a décidé de garder le logo bleu.",
        "Wir haben uns für den zweiten Entwurf entschieden.",
        "Decidimos usar o segundo plano.",
        "हमने दूसरी योजना तय की है।",
    ],
    "date": [
        "The deadline is 2031-04-12.",
        "My flight is on Tuesday at 9:40 and the interview on Friday.",
        "The review meeting is next Friday.",
        "下周三开会。",
        "截止日期是4月12日。",
        "会議は来週の月曜日です。",
        "회의는 다음 주 월요일입니다.",
        "Встреча в пятницу в 10:00.",
        "الاجتماع يوم الخميس.",
        "La reunión es el jueves.",
        "La réunion est jeudi.",
        "Die Abgabe ist am Freitag.",
        "A reunião é na quinta-feira.",
        "बैठक सोमवार को है।",
    ],
    "standing": [
        "From now on answer in German.",
        "Always run the tests before you commit.",
        "Never push to main.",
        "从现在开始用中文回答。",
        "以後請用繁體中文回答。",
        "今後は日本語で答えてください。",
        "앞으로는 한국어로 대답해 줘.",
        "Отныне отвечай по-русски.",
        "من الآن فصاعدا أجب بالعربية.",
        "A partir de ahora responde en español.",
        "Désormais, réponds en français.",
        "Ab jetzt antworte bitte auf Deutsch.",
        "A partir de agora responda em português.",
        "अब से हिंदी में जवाब दो।",
    ],
}
PASSING = [
    "Do you remember my name?",
    "I can't remember where I put it.",
    "I remember that day.",
    "I like that.",
    "I love it!",
    "I love the way you explain things.",
    "I'd like a table for two.",
    "I'd like to know more.",
    "What do you like?",
    "I like your answer.",
    "Could you fix the bug?",
    "Thanks, that is great.",
    "If I like it, I'll keep it.",
    "Never mind.",
    "Always a pleasure!",
    "Remember, it's never too late.",
    "Run the tests.",
    "Where do I live?",
    "My flight was late earlier this month.",
    "The build failed due to a timeout.",
    "Let's see.",
    "Let's go!",
    "你喜欢什么？",
    "我喜欢你。",
    "你还记得我的名字吗",
    "帮我查一下天气。",
    "我想吃麻婆豆腐，哪家好吃呢？",
    "好的，谢谢。",
    "何が好きですか？",
    "ありがとうございます。",
    "뭐 좋아하세요?",
    "Что ты любишь?",
    "Спасибо, отлично.",
    "ما اسمك؟",
    "¿Cómo te llamas?",
    "Me gustaría reservar una mesa.",
    "Comment tu t'appelles ?",
    "Ich möchte einen Tisch reservieren.",
    "Wo wohne ich?",
    "Gostaria de reservar uma mesa.",
    "आपका नाम क्या है?",
    "",
    "   ",
    "ok",
]


@pytest.mark.parametrize("kind,text", [(kind, text) for kind, texts in WORTH.items() for text in texts])
def test_what_is_worth_remembering_is_noticed_word_for_word(kind, text):
    assert [found.text for found in notice(f"Hello.\n{text}\nThanks!")] == [text]


@pytest.mark.parametrize("kind", WORTH)
def test_the_kind_is_mostly_right(kind):
    right = [notice(text)[0].kind == kind for text in WORTH[kind]]
    assert sum(right) >= 0.8 * len(right)


@pytest.mark.parametrize("text", PASSING)
def test_what_is_said_in_passing_is_not(text):
    assert notice(text) == []


def test_only_the_sentence_is_taken_and_not_what_stands_around_it():
    text = "Hi there! How are you? My name is Ada. I'd like to book a berth. Please remember that I pay by card. Bye."
    assert [found.text for found in notice(text)] == ["My name is Ada.", "Please remember that I pay by card."]


def test_chinese_sentences_are_told_apart_without_blanks():
    text = "你好！我叫王峰，很高兴认识你。今天天气怎么样？我喜欢爬山。"
    assert [found.text for found in notice(text)] == ["我叫王峰，很高兴认识你。", "我喜欢爬山。"]


@pytest.mark.parametrize(
    "pasted",
    [
        "```\nI prefer dark mode\n```",
        "```python\n# always use tabs\nname = 'my name is Bob'",
        "> I live in Paris",
        "2031-04-12 10:00:00 INFO We decided to retry",
        "[12:00:01] I work at night",
        "| I like tea | yes |",
        '{"text": "My name is Bob"}',
        "ERROR: always use the new API",
        "// I hate this compiler",
        "<file>I live in Rome.</file>",
        "$ echo I prefer fish",
    ],
)
def test_what_was_pasted_is_not_what_the_person_says(pasted):
    assert notice(pasted) == []
    assert [found.text for found in notice(f"My name is Ada.\n{pasted}")] == ["My name is Ada."]


def test_the_middle_of_a_long_paste_is_not_looked_at():
    text = "My name is Ada.\n" + "Some long text about boats. " * 200 + "I live in Rome. " + "And more of it. " * 300
    assert [found.text for found in notice(text)] == ["My name is Ada."]
    assert EDGE_CHARS < 5000


def test_the_same_sentence_is_one_entry():
    assert len(notice("I live in Kiel. I live in Kiel.\nI LIVE IN KIEL.")) == 1


def test_length_and_number_are_bounded():
    found = notice("\n".join(f"I live in {name * 60}." for name in ("Kiel ", "Bonn ")))
    assert all(len(one.text) <= MOST_CHARS for one in found)
    assert len(notice("\n".join(f"I live in town {n}." for n in range(100)))) == MOST_ENTRIES


def test_abbreviations_and_numbers_do_not_end_a_sentence():
    text = "I work for Dr. Brown at v2.1 of the port, e.g. Pier B."
    assert [found.text for found in notice(text)] == [text]


def test_nothing_takes_long():
    for odd in (
        "I like " * 30_000,
        "." * 100_000,
        "我" * 50_000,
        "a. " * 50_000,
        " " * 100_000,
        "```" * 30_000,
        "\ud83d I like tea.",
    ):
        assert len(notice(odd)) <= MOST_ENTRIES


@needs_recordings
@pytest.mark.parametrize(
    "name,least,most", [("locomo", 2, 8), ("memorybank", 6, 16), ("crosswoz_zh", 0, 3), ("pi_sessions", 0, 5)]
)
def test_of_recorded_talk_a_few_sentences_in_a_hundred_messages_are_noticed(name, least, most):
    said = [m["content"] for record in load_recordings(name) for m in record["messages"] if m["role"] == "user"]
    found = sum(len(notice(text)) for text in said)
    assert least <= 100 * found / len(said) <= most
