"""How a model talks around what it was asked for: "Here is the updated file:", "Let me know if …".

In many languages. Only openings of lines are looked for, and only in lines where nobody expects a fact; but each must
be one that no note about a person begins with.
"""

import re

_DID = r"(?:updated|merged|added|removed|kept|made|combined|consolidated|integrated|organi[sz]ed|incorporated|cleaned)"
_TALK = (
    r"(?:sure|certainly|of course|absolutely|ok(?:ay)?|alright|great|got it|understood|no problem)\s*[,.!:—–-]",
    r"here(?:['’]s| is| are) (?:the|your|my|an?)\b|below (?:is|are)\b|let me know\b|feel free\b",
    rf"i(?:['’]ve| have)? (?:also |now )?{_DID}\b|i(?:['’]ll| will) (?:remember|keep|update|merge|add|note)",
    r"please (?:let me|note that|review)|(?:i )?hope (?:this|that)\b|if you (?:need|want|have|would|['’]d)\b",
    r"is there anything|would you like|do you want|(?:the |this |your )?memory(?: file|\.md)? (?:has been|is now|was) ",
    r"(?:changes|note|summary of changes|explanation)\b[^\n]{0,40}[:：]",
    # Chinese, Japanese, Korean
    r"好的[，,。！!]|[当當]然[，,。！!]|[没沒]问?問?题?題?[，,。！!]|以下是|(?:这|這)是(?:更新|合[并併]|整理)|希望(?:这|這)|需要我",
    r"我?(?:已|已[经經])(?:更新|合[并併]|添加|整理|[删刪]除|[将將]|把)|如果(?:您|你)(?:还|還|有|需|想)|如有|(?:请|請)(?:告[诉訴]|[让讓])我",
    r"はい[、,]|もちろん|承知|了解(?:し|で)|以下(?:は|が)|更新しました|ご(?:確認|不明)|他に(?:何|ご)",
    r"네[,.]|물론|알겠|다음은|업데이트(?:했|된)|필요하시면",
    # Slavic
    r"конечно[,!.]|хорошо[,.!]|вот (?:обновл|нов|файл)|я (?:обновил|добавил|объединил)|если (?:вам|у вас) |дайте знать",
    r"надеюсь, (?:это|что)|звісно[,!.]|ось (?:оновл|нов)|якщо (?:вам|у вас) ",
    r"oczywiście[,!.]|oto |jeśli (?:potrzebujesz|chcesz)",
    # Romance
    r"claro[,.!]|por supuesto|aquí (?:está|tienes|tiene)|he (?:actualizado|añadido)|si (?:necesitas|necesita|desea)",
    r"espero que|bien sûr|voici |j['’]ai (?:mis à jour|ajouté|fusionné)|n['’]hésitez|si vous (?:avez|souhaitez|voulez)",
    r"j['’]espère|certo[,!]|ecco |ho (?:aggiornato|aggiunto)|aqui está|atualizei|se (?:precisar|hai bisogno|vuoi)",
    # German
    r"natürlich[,!.]|gerne?[,!.]|klar[,!.]|hier ist (?:die|der|das|deine|ihre)|falls (?:sie|du) |lassen sie",
    r"ich habe\b[^\n]{0,40}(?:aktualisiert|ergänzt|zusammen)",
    # Arabic, Hindi
    r"بالتأكيد|بالطبع|إليك|لقد (?:قمت|حدثت)|إذا (?:كنت|كان|أردت)|أخبرني|ज़रूर[,!।]|यह रहा|यहाँ (?:अद्यतन|नई)",
)
_OPENING = re.compile(rf"\W*(?:{'|'.join(_TALK)})", re.IGNORECASE)


def is_talk_line(line: str) -> bool:
    """Whether a line begins as talk does."""
    return _OPENING.match(line) is not None
