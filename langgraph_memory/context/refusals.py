"""What a model says instead of a summary: that it will not, that it cannot, that something went wrong.

Such replies come as plain text that ended normally, so only their opening tells. An apology, a first person who cannot,
or an error are no way to begin a summary; a sentence *about* a refusal begins otherwise. The lists are openings by
language, and they are looked for in short texts only: one too many costs an extract, one too few costs the history.
"""

import re
import unicodedata

MOST_CHARS = 600
"""A longer text is a refusal only if it opens as nothing else does, or stands where no heading was written."""
LONG_CHARS = 3000
TOPIC_CHARS = 120
"""A longer text may well be *about* an error."""

_GREETING = (
    r"(?:(?:hello|hi|hey|hola|bonjour|hallo|ciao|olá|привет|здравствуйте|您好|你好|こんにちは"
    r"|sure(?: thing)?|of course|certainly|absolutely|ok(?:ay)?|understood|thank(?:s| you)|好的|はい|конечно)"
    r"[\s,!.，！。、]+){0,2}"
)

_APOLOGIES = (r"sorry\b|(?:my |sincere |please accept my )*apolog(?:y|ies)\b|i (?:do |sincerely )?apologi[sz]e",)

_DECLINES = (
    # English
    r"i(?:['’]?m| am) (?:very |so |really |truly |deeply )?(?:sorry|afraid|unable"
    r"|not (?:able|comfortable|allowed|permitted|going|programmed|designed))",
    r"i (?:really |simply |just )?(?:can(?:['’]?t|not| not)|could(?:n['’]?t| not)|won['’]?t|will not)",
    r"i do(?:n['’]?t| not) (?:feel|have|think|know|see|want)|(?:regrettably|regretfully),? i\b|i regret\b",
    r"i(?:['’]d| would) (?:rather|prefer) not|i have no (?:memory|access|record|conversation|messages|context)",
    r"(?:my|our) (?:[\w-]+ ){0,3}(?:guidelines?|polic(?:y|ies)|rules?|instructions?|principles|programming|training)"
    r" (?:(?:do(?:es)?|wo|will)(?:n['’]?t| not) (?:allow|permit|let)|prevents?|prohibits?|forbids?|precludes?)\b",
    r"(?:this|that|it)(?:['’]?s| is)(?: ?n['’]?t| not) (?:something|anything|an? \w+) (?:that )?(?:i|we)\b",
    r"(?:this|that|it|(?:doing|summari[sz]ing|processing) \w+)(?:['’]?s| is| goes| would be| would go) against"
    r" (?:my|our|the (?:content|usage|safety)|\w+['’]s) (?:[\w-]+ ){0,3}(?:guideline|polic|rule|instruction|principle"
    r"|term|programming)",
    r"i (?:must |have to |need to )?(?:respectfully )?(?:decline|refuse)",
    r"as an? (?:ai|artificial|(?:large )?language model|assistant)\b|unfortunately,? (?:i|we)\b",
    r"(?:this|that|your) (?:request|content|conversation|prompt|message|input)"
    r" (?:(?:may |might )?violates?|goes against|can(?:['’]?t|not) be"
    r"|(?:was|is|has been) (?:blocked|flagged|filtered|rejected|refused|denied|against))",
    r"(?:the |my )?(?:response|output) (?:was|is|has been) (?:blocked|flagged|filtered|withheld|removed)",
    r"there (?:is|are|was|were) (?:no|nothing|not enough)\b[^.]{0,60}(?:summar|conversation|messages|content)",
    r"no (?:messages|conversation|content|text|input)\b[^.]{0,30}(?:provided|given|found|summari|available)",
    r"no (?:\w+ )?(?:task|question|instructions?|request|transcript|history)\b[^.\n]{0,20}"
    r"(?:provided|given|specified|supplied)",
    r"(?:the|this|your) (?:conversation|transcript|(?:chat|message|conversation) history)(?: (?:you )?provided)?"
    r" (?:is|was|appears to be|seems to be|seems|looks) (?:currently )?(?:empty|blank|missing)\b",
    r"i(?:['’](?:d|m|ll)| would| am| will)[^.!?\n]{0,20}(?:happy|glad|ready|here|pleased) to (?:help|assist|summari)"
    r"[^\n]{0,200}(?:[?？]|please (?:provide|share|paste|send|give))",
    r"(?:what|which|how)\b[^.\n]{0,40}(?:(?:would|do) you (?:like|want|need) me to|(?:can|may) i (?:help|assist))",
    r"(?:please|could you|can you) (?:please )?(?:provide|share|paste|send|give)\b",
    r"it (?:seems|looks|appears)[^.]{0,50}(?:empty|no (?:messages|conversation)|not provided|did(?:n['’]t| not))",
    r"you (?:have(?:n['’]t| not)|did(?:n['’]t| not)) (?:provide|share|include|give)",
    # Chinese
    r"(?:真的|真是|实在|實在|非常|十分|很)?(?:抱歉|对不起|對不起|遗憾|遺憾|不好意思)",
    r"(?:作为|作為)[^，,。]{0,12}(?:AI|人工智能|人工智慧|助手|语言模型|語言模型)",
    r"(?:我|本助手|本模型)(?:暂时|暫時|目前|现在|現在|还|還|恐怕)?(?:无法|無法|不能|没法|没办法|沒辦法|不便|拒绝|拒絕)",
    r"(?:无法|無法|不能)(?:提供|满足|滿足|回答|协助|協助|总结|總結)|(?:请|請)您?提供",
    r"(?:该|該|此|您的|你的)(?:请求|請求|内容|內容|对话|對話)[^。]{0,6}(?:违反|違反|无法|無法|不能|拒绝|过滤|敏感)",
    r"(?:这|這|那|该|該)(?:个|個)?(?:问题|問題|内容|內容|话题|話題|请求|請求)[^。，,\n]{0,4}我[^。，,\n]{0,6}(?:无法|無法|不能|没法|沒法|不便)",
    r"(?:这|這)?超出了?我的|(?:让|讓|请|請)?我们?(?:换|換)(?:个|個)(?:话题|話題)|(?:根据|根據|按照)[^。\n]{0,20}我(?:无法|無法|不能)",
    # Japanese, Korean
    r"(?:大変)?(?:申し訳|すみません|すいません|ごめん|恐れ入りますが)|残念ながら[^。]{0,40}(?:できません|かねます)",
    r"(?:その|この|ご)?(?:お手伝い|お答え|対応|要約)(?:を|は|に)?(?:することは|いたし)?(?:でき|かね)",
    r"(?:その|この|ご)[^。\n]{0,30}(?:お手伝い|お答え|お応え|要約)[^。\n]{0,10}(?:できません|できかね|しかね|致しかね)",
    r"(?:정말 |대단히 )?(?:죄송|미안|유감)",
    r"(?:[^.\n]{0,30} )?(?:도와드릴|답변드릴|요약해 드릴|요약할|제공할) 수(?:가)? 없",
    # Slavic
    r"извини|простите|прошу прощения|мне (?:очень )?жаль|к сожалению,? (?:я|не)|(?:я )?не могу|я не в состоянии",
    r"вибач|перепрошую|на жаль,? (?:я|не)|(?:я )?не можу|съжалявам|жао ми је|žao mi je",
    r"(?:bardzo )?przepraszam|przykro mi|(?:niestety,? )?nie (?:mogę|jestem w stanie)",
    r"omlouvám|je mi líto|bohužel,? ne|nemohu\b|ospravedlňujem|prepáčte|je mi ľúto|nemôžem\b|oprostite|nažalost,? ne",
    # Romance
    r"(?:lo )?(?:siento|lamento)\b|disculp|perd[oó]n|(?:(?:lamentable|desafortunada)mente,? )?no (?:puedo|me es)",
    r"(?:je suis |nous sommes )?(?:vraiment |sincèrement )?désolée?s?\b|mes excuses|veuillez m['’]excuser",
    r"(?:malheureusement,? )?je (?:regrette|m['’]excuse|ne (?:peux|puis|suis pas))|en tant qu['’](?:ia|assistant)",
    r"desculp|peço desculpa|(?:sinto|lamento)\b|(?:infelizmente,? )?(?:eu )?não (?:posso|consigo)|ho sentim|ho sento",
    r"mi (?:dispiace|spiace|scuso)|spiacente|(?:purtroppo,? )?(?:io )?non (?:posso|sono in grado)",
    r"îmi (?:pare rău|cer scuze)|(?:din păcate,? )?nu pot\b",
    # Germanic, Nordic
    r"(?:es )?tut mir (?:sehr |wirklich )?leid|entschuldig|verzeih|ich (?:kann|darf)\b|leider (?:kann|darf) ich",
    r"het spijt me|mijn excuses|(?:helaas )?kan ik|ik kan\b[^.]{0,30}\bniet",
    r"jag (?:är ledsen|beklagar|kan (?:tyvärr )?inte)|tyvärr,? kan|förlåt|ursäkta|jeg (?:beklager|kan ikke)|beklager",
    r"undskyld|(?:desværre|dessverre),? kan|olen pahoillani|anteeksi|valitettavasti,? en|en voi\b|því miður",
    r"прабач|выбач|на жаль,? я|жал ми е|се извинувам|afsakið|fyrirgefðu|jammer,|verskoning|ek kan nie",
    # Turkic, Caucasian, Mongolian
    r"(?:[^.\n]{0,40} )?yardımcı olama(?:m|yız|yacağım|yacağız)\b|(?:[^.\n]{0,40} )?yardımcı olamıyor",
    r"üzr istə|bağışlayın|təəssüf|kechirasiz|uzr\b|afsuski|кешір|өкініш|кечир|тилекке каршы|гафу|уучлаар|харамсалтай",
    r"ბოდიში|უკაცრავად|სამწუხაროდ|ვწუხვარ|მაპატიე|ներեց|ներող|ցավում եմ|ցավոք|бубахш|мебахш",
    # Others in Latin or Greek letters
    r"üzgünüm|özür dilerim|kusura bakma|maalesef[^.]{0,80}(?:mam|mem|mıyorum|miyorum)\b|sajnál|sajnos,? nem|elnézést",
    r"λυπ[άα]μαι|συγγν[ώω]μη|δ[εέ]ν μπορ[ώω]|(?:rất |thành thật )?xin lỗi|(?:tôi )?rất tiếc|tôi (?:xin lỗi|không thể)",
    r"(?:mohon )?maaf|saya (?:tidak (?:bisa|dapat)|minta maaf)|paumanhin|pasensya|hindi ko\b|samahani",
    r"më vjen keq|kërkoj (?:falje|ndjesë)|na vjen keq|tá brón|mul on kahju|atvaino|piedod|deja,? ne|síntoo|jiddispjaċi",
    r"siwezi\b|uxolo\b|ngiyaxolisa|yi haƙuri|má bínú|nyuwun p|pardonu|mi bedaŭras|li min bibore",
    r"atsiprašau|vabandust|diemžēl,? (?:es )?nevaru|barkatu|ddrwg gen i",
    # Arabic, Persian, Urdu, Hebrew
    r"(?:أنا )?(?:آسف|متأسف)|عذر|أعتذر|نعتذر|نأسف|المعذرة|عفوا|(?:للأسف،? )?لا (?:أستطيع|يمكنني)",
    r"(?:با عرض )?(?:پوزش|متاسف|ببخشید)|نمی‌?توانم|معذرت|معاف|אני (?:מצטער|לא יכול)|מצטער|סליחה|לצערי",
    r"بخښنه|ببوور|كەچۈر|ይቅርታ|አዝናለሁ",
    # Languages of India and the countries behind it
    r"(?:मुझे |हमें )?(?:खेद|क्षमा|माफ)|मैं (?:यह |इसमें )?(?:नहीं|असमर्थ)|(?:আমি )?(?:দুঃখিত|ক্ষমা)|மன்னிக்க",
    r"క్షమించ|ಕ್ಷಮಿಸ|ക്ഷമിക്ക|ਮਾਫ|માફ|କ୍ଷମା|සමාව|කණගාටු|दिलगीर|தயவுசெய்து மன்னி|வருந்த",
    r"တောင်းပန်|ဝမ်းနည်း|ខ្ញុំសុំទោស|សុំទោស|សូម(?:អភ័យ)?ទោស|ຂໍ(?:ອະໄພ|ໂທດ)|དགོངས་དག",
    r"(?:ต้อง)?ขอ(?:โทษ|อภัย)|เสียใจ|(?:ฉัน|ผม|ดิฉัน)ไม่สามารถ",
)

_FAILED = (
    r"(?:[\w.]*error|[\w.]*exception)\b ?[:：(]|error (?:code\b|\d{3}\b)|traceback \(most recent",
    r"error (?:generating|creating|calling|while|during|occurred|communicating|processing|summari[sz]ing)\b",
    r"(?:an?|there was an?|unknown|unexpected|internal)\b[^.\n]{0,30}\berror\b(?: has)? (?:occurred|while|during)",
    r"something went wrong|(?:failed|unable) to (?:generate|create|produce|obtain|summari[sz]e|process|reach|connect)",
    r"(?:could(?: not|n['’]t)|cannot|can['’]t) (?:generate|create|produce|summari[sz]e|process)",
    r"(?:the )?summar(?:y|i[sz]ation|i[sz]er)\b[^.\n]{0,30}(?:unavailable|not available|failed|could not|timed out)",
    r"no summary\b|(?:previous|earlier|older) (?:conversation|messages|history)[^.\n]{0,30}(?:too long|unavailable)",
    r"(?:错误|錯誤)[:：]|发生(?:了)?(?:未知)?错误|(?:请求|生成|总结|摘要|调用|连接)[^。]{0,8}(?:失败|超时|出错)|出错了",
    r"(?:服务|服务器|网络|系统)(?:错误|异常|繁忙|超时|不可用)|エラー(?:が発生|[:：])|要約[^。]{0,6}失敗",
    r"오류(?:가 발생|[:：])|(?:произошла )?ошибка\b ?(?::|при|сервера|\.|$)|(?:ocurrió|se produjo) un error|error al\b",
    r"une erreur|erreur (?:lors|:)|ein fehler|fehler ?(?:bei|:)|ocorreu um erro|erro ao\b|si è verificato un errore",
)

_FAILED_BRIEFLY = (
    r"(?:http\S* ?)?[45]\d\d\b[\s:-]*(?:client|server|error|too|rate|service|bad|gateway|internal|unauth|forbidden)",
    r"rate.?limit|too many requests|quota|insufficient.quota|internal server error|bad gateway|gateway time|overloaded",
    r"(?:the )?(?:service|server|model|engine)\b[^.\n]{0,30}(?:unavailable|overloaded|busy|down)",
    r"(?:the )?(?:connection|request|read|network|api)\b[^.\n]{0,20}(?:error|timed? ?out|reset|refused|aborted|failed)",
    r"time(?:d )?out\b|unauthori[sz]ed|(?:invalid|incorrect) api key|authentication (?:error|failed)|access denied",
    r"(?:[\w'’-]+ ){0,4}limit (?:has been |was |is )?(?:reached|exceeded|hit)"
    r"(?:[\s|.!,;:∙·•…(-]*(?:\d|\Z|your\b|please|try|resets?\b|upgrade|wait))",
    r"you(?:['’]ve| have) (?:reached|hit|exceeded|used|run out)\b[^.\n]{0,40}(?:limit|quota|credits?)\b",
    r"(?:the |this |your )?(?:content|prompt|response|output|generation|message|request)s? (?:(?:was|is|has been) )?"
    r"(?:blocked|filtered|flagged|withheld|rejected|stopped)\b[^.\n]{0,30}(?:safety|polic|filter|moderat|guard|provider)",
    r"(?:blocked|flagged|filtered|rejected|stopped) by [^.\n]{0,30}(?:safety|polic|filter|moderat|guard)",
    r"no (?:response|reply|answer|output)(?: (?:is|was))? (?:requested|needed|required|necessary|expected|generated)",
    r"(?:\w+ ){0,3}(?:prompt|input|context|balance|payload|quota)\b[^.\n]{0,12} too (?:long|large|low|big)",
    r"[\[(<][^.\n]{0,30}(?:conversation|history|messages?|summary|content|text)[^.\n]{0,30}"
    r"(?:omitted|truncated|removed|trimmed|elided|redacted|goes here|placeholder)",
)

_ONLY_REFUSALS = (
    r"i(?:['’]?m| am) (?:very |so |really )?sorry,? (?:but )?(?:i|that)\b",
    r"sorry,? (?:but )?i(?:['’]?m| am)? ?(?:not|unable|can(?:['’]?t|not))\b",
    r"as an? (?:ai|artificial|(?:large )?language model)\b",
    r"i can(?:['’]?t|not| not) (?:assist|help|provide|fulfil|comply|continue|summari|complete|process|engage|do that)",
    r"(?:很|非常)?抱歉[，,]?我(?:无法|不能)|對不起[，,]?我(?:無法|不能)",
)


def _opening(*openings: tuple[str, ...]) -> re.Pattern[str]:
    joined = "|".join(pattern for group in openings for pattern in group)
    return re.compile(rf"\A\W*?{_GREETING}(?:{unicodedata.normalize('NFKC', joined)})", re.IGNORECASE)


_SHORT = _opening(_APOLOGIES, _DECLINES, _FAILED)
_DECLINED = _opening(_DECLINES)
_BRIEF = _opening(_FAILED_BRIEFLY)
_ANY = _opening(_ONLY_REFUSALS)


def declines(text: str, refusal_chars: int = MOST_CHARS) -> bool:
    """Whether `text` opens as a refusal, an excuse or an error does, and is short enough to be nothing else.

    `refusal_chars` is the size up to which a refusal is short enough.
    """
    size, start = len(text), unicodedata.normalize("NFKC", text[:MOST_CHARS])
    limits = ((TOPIC_CHARS, _BRIEF), (MOST_CHARS, _SHORT), (refusal_chars, _DECLINED), (LONG_CHARS, _ANY))
    return any(size <= most and opening.match(start) for most, opening in limits)
