"""How a model tells of the file that it was to write, instead of writing it: what it changed, what it left as it was.

In many languages. Only what is new in a file is looked at, as anything may be a fact of somebody's.
"""

import re

_REST = (
    r"everything else|all other (?:lines|entries|sections|items|content|facts|notes|details)|all else"
    r"|(?:the )?(?:other|remaining|existing) (?:lines|entries|sections|items|content|facts|notes)"
    r"|(?:the )?rest (?:of (?:the|this|your) (?:file|memory|document|content|list|lines|entries) )?"
    r"(?=is|was|are|remain|stay|kept|unchanged)",
    r"其[余餘他它]|剩余|剩餘|その他|それ以外|残り|他の(?:行|項目|内容|部分)|나머지|그 외|다른 (?:줄|항목|내용)",
    r"вс[её] остальн|остальн|все інше|решта|reszta|pozostał",
    r"alles (?:andere|übrige)|der rest|alle (?:anderen|übrigen)|de rest|al het andere",
    r"(?:tout )?le reste|(?:todo )?(?:lo demás|el resto)|(?:todo )?o rest(?:o|ante)|(?:tutto )?il resto",
    r"باقي|بقية|الباقي|बाकी|शेष|geri kalan|phần còn lại|các (?:dòng|mục) khác",
)
_SAME = (
    r"un(?:changed|altered|touched|modified)|the same|not changed|no changes?|omitted",
    r"as (?:is|before|it was|they were)\b",
    r"不[变變]|未[变變更改]|原[样樣]|省略|以下略|同上|変更(?:なし|はありません|していません)|そのまま|同じ",
    r"변경 ?(?:없|되지|하지)|그대로|동일|생략|без изменени|не измен|без змін|не змін|bez zmian",
    r"unverändert|(?:bleibt|bleiben|wie) (?:gleich|bisher|zuvor)|ongewijzigd|hetzelfde|inchangé|sin cambios|igual",
    r"inalterad|sem alteraç|invariat|immutat|(?:دون|بدون) تغيير|كما هو|لم يتغير|अपरिवर्तित|जैसा|बदलाव नहीं",
    r"değişmedi|aynı|giữ nguyên|không (?:thay )?đổi",
)
_UNCHANGED = re.compile(rf"\W*(?:{'|'.join(_REST)})[^\n]{{0,60}}?(?:{'|'.join(_SAME)})", re.IGNORECASE)
_SAME_SOMEHOW = re.compile("|".join(_SAME), re.IGNORECASE)

_ABOUT = (
    r"(?:summary of |list of )?(?:the )?(?:changes|edits|modifications)(?: (?:made|applied|summary))?|what changed",
    r"(?:compression|compaction|consolidation|merge|merges|updates|edits?)(?: applied| made| notes?)",
    r"(?:更改|[变變]更|修改|[变變]化|更新)(?:[说說]明|摘要|[内內]容|[记記][录錄])?",
    r"変更(?:点|内容|箇所)|변경 ?(?:사항|내용)|(?:ال)?تغييرات|(?:ال)?تعديلات|बदलाव|परिवर्तन",
    r"(?:внес[её]нные )?изменения|что изменилось|(?:внесені )?зміни|(?:wprowadzone )?zmiany",
    r"(?:vorgenommene )?änderungen|was (?:sich )?geändert (?:hat|wurde)|(?:aangebrachte )?wijzigingen",
    r"(?:changements|modifications)(?: (?:effectué|apporté)e?s)?|cambios(?: realizados)?|alterações(?: feitas)?",
    r"mudanças|modifiche(?: apportate)?|(?:yapılan )?değişiklikler|(?:các )?thay đổi",
)
_HEADING = re.compile(rf"[\W_]*(?:{'|'.join(_ABOUT)})[\W_]*", re.IGNORECASE)
_DID = re.compile(
    r"\W*(?:added|appended|merged|removed|deleted|dropped|kept|preserved|retained|moved|updated|replaced|combined"
    r"|de-?duplicated|consolidated|shortened|condensed|compressed|reworded|no (?:lines|entries|facts)|unchanged)\b"
    r"|[\W_]*(?:已|新增|添加|合[并併]|[删刪]除|保留|更新|追加|統合|削除)|(?:추가|병합|삭제|유지|업데이트)(?:했|됨|함|하)"
    r"|добавлен|объедин[её]н|удал[её]н|сохран[её]н|обновл[её]н|додано|об['’]єднано|видалено|збережено|dodano|scalono"
    r"|hinzugefügt|zusammengeführt|entfernt|beibehalten|aktualisiert|toegevoegd|samengevoegd|ajouté|fusionné|supprimé"
    r"|conservé|añadid|fusionad|eliminad|adicionad|removid|mantid|aggiunt|rimoss|unit[oaie]\b|أضيف|إضافة|تمت|حذف|دمج"
    r"|जोड़ा|हटाया|eklendi|birleştirildi|silindi|đã (?:thêm|gộp|xóa|giữ)",
    re.IGNORECASE,
)


def says_unchanged(line: str, *, in_brackets: bool) -> bool:
    """Whether a line says of others that they are as they were; in brackets it need not say of which."""
    return (_SAME_SOMEHOW.search(line) if in_brackets else _UNCHANGED.match(line)) is not None


def is_about_changes(heading: str) -> bool:
    """Whether a heading is that of a list of changes."""
    return _HEADING.fullmatch(heading) is not None


def tells_of_changes(line: str) -> bool:
    """Whether a line may tell of a change to the file; also many a fact does."""
    return _DID.search(line) is not None or says_unchanged(line, in_brackets=False)
