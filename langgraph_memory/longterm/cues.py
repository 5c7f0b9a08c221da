"""By what words a sentence is known to be worth remembering, in the languages that most people write.

One list a kind, one line or two a language. They are matched in one sentence, normalized by NFKC, without regard to
case. A sentence too many costs a line that consolidation drops; one too few is a thing that was said in vain. So what
people say about themselves in so many words is in, and what only sounds like it — wishes, polite phrases, praise of the
last answer — is kept out by `PASSING`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Kind = Literal["remember", "preference", "identity", "decision", "date", "standing"]

_VERY = r"(?:(?:really|absolutely|usually|generally|typically|normally|personally|also|just|do|still|both|mostly) )*"
_KIN = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|son|daughter|kids?|children|mom|mum|mother|dad|father"
    r"|parents|brother|sister|grand\w+|aunt|uncle|cousin|dog|cat|pets?|boss|manager|roommate|birthday|anniversary|job"
    r"|company|team|address|phone number|e-?mail|time ?zone|hometown|native language|major|account|user ?name|dream)"
)

_REMEMBER = (
    r"^\W*(?:(?:please|pls|also|and|ok|okay|hey|so|but|just|oh|yes|by the way|btw|can you|could you"
    r"|you should)[,:]? )*"
    r"(?:remember\b(?! when\b| how\b| the time\b)|keep in mind|bear in mind|do(?:n['’]?t| not) forget|never forget"
    r"|make a note|take a note|note (?:that|down|this)|note:|memori[sz]e|save (?:this|that|it)\b.{0,20}memory"
    r"|for the record"
    r"|for (?:your )?(?:future )?reference|fyi\b)",
    r"\b(?:i(?:['’]d| would)? (?:want|need|like) you to|you (?:must|have to|need to)|please)\b.{0,12}\bremember\b",
    r"^[^我]{0,6}(?:记住|記住|记下来|記下來|记一下|記一下|记着|記著|别忘了|別忘了|不要忘记|不要忘記|备忘|備忘)"
    r"|^(?:请|請|你要|要|一定要)(?:记得|記得)",
    r"覚えておい|覚えてくださ|忘れないで|メモし(?:て|てお)",
    r"기억해|잊지 ?마|메모해",
    r"\b(?:запомни|запиши|не забудь|имей(?:те)? в виду|учти|учтите|для справки)",
    r"(?:^|\s|،)و?(?:تذكر|تذكّر|لا تنس|احفظ|سج[ّ]?ل أن|دو[ّ]?ن|ضع في اعتبارك)",
    r"\b(?:recuerd[ae]\b(?! cuando)|acuérdate|no (?:te )?olvides|no olvide|ten(?:ga)? en cuenta|tom[ae] nota"
    r"|apunta\b)",
    r"\b(?:souviens-toi|souvenez-vous|rappelle-toi|n['’]oublie[zs]? pas|retiens|retenez|note[zs]? (?:bien )?que"
    r"|à noter)",
    r"\bmerke?n? (?:dir|sie sich)|\bdenke?n? (?:sie )?(?:bitte )?dara[nm]|\bvergiss (?:bitte )?nicht"
    r"|\bvergessen sie nicht"
    r"|\bnotiere?n?\b|\bzur (?:info|erinnerung)\b",
    r"\b(?:lembre-se|lembra-te|lembre que|lembra que|não (?:se |te )?esqueças?|anot[ae]\b|tenha em mente)",
    r"याद रख|मत भूल|ध्यान (?:में )?रख|नोट कर",
)
_PREFERENCE = (
    rf"\bi {_VERY}(?:like|love|prefer|hate|dislike|enjoy|adore|loathe|despise)\b(?!\W*$| to\W*$| (?:it|that|this"
    rf"|these|those|them"
    rf"|you)\b)",
    rf"\bi {_VERY}(?:don['’]?t|do not|can['’]?t|cannot) {_VERY}(?:like|eat|drink|stand|tolerate)\b(?! (?:it|that"
    rf"|this)\b)",
    rf"\bi {_VERY}(?:always|never) {_VERY}(?:use|eat|drink|work|write|wear|buy|cook|read|run|start|take|travel|fly"
    rf"|drive)\b",
    r"\b(?:my|our) (?:all-time )?(?:fav(?:ou?rite)?s?|preferred|preference|go-to|pet peeve)\b(?!\W*$)|\b(?:my"
    r"|our) (?:hobb(?:y|ies)|passion)s? (?:is|are|include)\b|\bis my passion\b",
    r"\bi(?:['’]m| am) (?:\w+ )?(?:a (?:big |huge )?fan of|allergic|lactose|gluten|intolerant|(?:a )?veg(?:an"
    r"|etarian)|into \w)",
    r"\bi(?:['’]d| would) (?:much )?rather (?!not\b)",
    r"我(?:个人|自己|本人|也|就|都|还|還|又|真的|特别|特別|最|很|非常|十分|比较|比較|更|一直|从小|從小|平时|平時|超|挺|蛮|一般|通常"
    r"|平常|只|不|不太|不怎么|不是很|其实|其實|还是|最近)*(?:喜欢|喜歡|喜爱|热爱|熱愛|爱(?=[吃喝看听玩好])|愛(?=[吃喝看聽玩好])"
    r"|讨厌|討厭|偏好|习惯(?!了)|習慣|擅长|擅長|不吃|不喝|受不了)",
    r"我对[^，。]{1,12}(?:感兴趣|过敏|很有兴趣)|我對[^，。]{1,12}(?:感興趣|過敏)"
    r"|我(?:的)?(?:最)?(?:爱好|愛好|兴趣|興趣|最爱|最愛|偶像|梦想|夢想)(?:是|有|就是)",
    r"(?:私|僕|俺|わたし|ぼく)(?:は|も).{0,30}(?:好き|嫌い|苦手|得意|好み|アレルギー)"
    r"|(?:が|は)(?:大)?(?:好き|嫌い|苦手)(?:です|なん|だ)|趣味は",
    r"(?:좋아(?:해|합니다|하는|함)|싫어(?:해|합니다|하는)|선호(?:해|합니다)|못 먹|알레르기|알러지|취미는|즐겨 )",
    r"\bя (?:(?:очень|больше|не|всегда|обычно|тоже|просто|особенно|никогда) )*(?:люблю|обожаю|предпочитаю|ненавижу"
    r"|терпеть не могу|ем\b|пью\b|увлекаюсь|пользуюсь)|\bмне (?:(?:очень|больше|не|всегда|особенно) )*нрав[ия]тся"
    r"|\bмо[йяеи]х? (?:сам\w+ )?любим|\bу меня аллергия|\bмо[её] хобби",
    r"(?:^|\s)(?:أنا )?(?:لا )?(?:أحب|أُحب|أفض[ّ]?ل|أكره|أعشق|أستخدم دائم|آكل)(?=\s)|(?:لدي|عندي) حساسية"
    r"|المفض[ّ]?ل(?:ة)? (?:لدي|عندي)"
    r"|هوايتي",
    r"\b(?:yo )?(?:prefiero|odio|detesto|adoro)\b|\b(?:no )?me (?:gustan?|encantan?|fascinan?|molestan?)\b"
    r"|\b(?:siempre|nunca) (?:uso|como|bebo)\b|\bsoy (?:alérgic|vegetarian|vegan|intolerante|celíac)"
    r"|\bmis? \w+ favorit",
    r"\bje (?:préfère|déteste|adore|n['’]aime pas|ne (?:mange|bois) pas|utilise toujours)\b|\bj['’](?:aime|adore)\b"
    r"|\bje suis (?:allergique|végétarien|végan|vegan|intolérant|fan d)|\bm(?:on|a|es) \w+ préféré",
    r"\bich (?:mag|liebe|bevorzuge|hasse)\b|\bich \w+ (?:\w+ ){0,4}(?:lieber|am liebsten|gerne?)\b|\bich (?:esse"
    r"|trinke) kein"
    r"|\bich (?:nutze|benutze|verwende) (?:immer|nie)\b|\bich bin (?:allergisch|vegan|vegetarier)|\bmeine? lieblings",
    r"\b(?:eu )?(?:prefiro|adoro|odeio|detesto)\b|\b(?:eu )?(?:não )?gosto (?:muito )?d[eao]|\b(?:sempre|nunca) uso\b"
    r"|\bsou (?:alérgic|vegetarian|vegan|intolerante|celíac)|\bmeus? \w+ (?:favorit|preferid)"
    r"|\bminhas? \w+ (?:favorit|preferid)",
    r"मुझे .{1,40}(?:पसंद|नापसंद|अच्छा लगता|अच्छी लगती|नफ़रत|एलर्जी)|मैं .{1,30}(?:पसंद कर|नहीं खात|नहीं पीत"
    r"|शाकाहारी)"
    r"|मेर[ाी] पसंदीदा|मेरा शौक",
)
_IDENTITY = (
    r"\bmy (?:full |first |last |real )?name(?:['’]s| is)\b|\b(?:you can |please )?call me (?!back|later|when|if"
    r"|at)\w"
    r"|\bi(?:['’]m| am) called\b",
    r"\bi (?:currently |now |still |also )?(?:live|reside|am based) (?:in|at|on|near|with)\b|\bi(?:['’]m"
    r"| am) (?:based|living) in\b",
    r"\bi (?:currently |now |still |also )?(?:work|teach|study|studied|volunteer|intern) (?:at|for|as|with|in)\b"
    r"|\bi(?:['’]m| am) (?:currently )?(?:working (?:at|for|as)|studying|majoring in|retired|unemployed|pregnant"
    r"|married|single"
    r"|divorced|engaged to|originally from|from [A-Z]|a (?:single|proud) (?:mom|mum|dad|parent|mother|father))\b",
    r"\bi(?:['’]m| am) an? (?:\w+ ){0,3}(?:engineer|developer|programmer|designer|teacher|professor|doctor|nurse"
    r"|student|lawyer"
    r"|writer|artist|musician|scientist|researcher|manager|consultant|analyst|accountant|architect|chef|cook|driver"
    r"|farmer"
    r"|photographer|journalist|founder|entrepreneur|freelancer|counsel\w+|therapist|physicist|biologist|economist"
    r"|trader"
    r"|pilot|sailor|soldier|veteran|actor|actress|dancer|singer|coach|trainer|librarian|electrician|plumber"
    r"|mechanic)\b",
    r"\btoday is my birthday\b|\bi(?:['’]m| am) (?:currently |now |still |also )?learning\b|\bmy \w+ (?:died"
    r"|passed away)\b",
    r"今天是我(?:的)?生日|我(?:最近|现在|現在|正|还|還|也|一直)*在(?:学|學)(?:习|習)?[^，。？校会會]{2,}",
    r"\bi (?:was born|grew up|come from|moved (?:to|from|here)|speak \w|graduated|have been married)\b",
    rf"\b(?:my|our) (?:\w+ )?{_KIN}(?:['’]s)?(?: \w+)? (?:is|are|was|were|lives?|works?|has|have|likes?|loves?"
    rf"|hates?|turns?)\b",
    r"\bi(?:['’]ve| have)? (?:have|got|own|adopted) (?:an?|two|three|four|five|\d+|twin|some) (?:\w+ )?(?:kids?"
    r"|child(?:ren)?|sons?"
    r"|daughters?|dogs?|cats?|pupp(?:y|ies)|kittens?|brothers?|sisters?|siblings?|pets?|horses?|degree|phd)\b",
    r"(?:^|[，,。！!\s])(?:您?你?好[，,！!]?)?我(?:的名字)?(?:叫|姓|名叫)(?!他|她|你|了|做)|我(?:的名字|的姓名)是",
    r"我(?:现在|現在|目前|一直|家|也)?(?:住在|来自|來自)|我在(?!考虑|考慮|想|找|犹豫)[^，。？]{1,15}(?:工作|上班|上学|上學|读书|讀書|生活|长大|長大)"
    r"|我今年[^，。？]{1,6}(?:岁|歲)|我(?:的)?(?:老家|家乡|家鄉)(?:是|在)",
    r"我(?:现在|現在|目前)?(?:是|就是)(?:一?[个個名位]|来自|來自|做|从事|從事|[^，。？的]{1,10}(?:人|学生|學生|老师|老師|工程师|工程師|医生|醫生"
    r"|专业|專業|程序员|设计师|律师|教授|护士|经理|作家|画家))(?!$)",
    r"我(?:有|养了?|養了?)(?:一|两|兩|二|三|四|几|幾|\d)[^，。？]{0,3}(?:孩子|儿子|兒子|女儿|女兒|猫|貓|狗|弟弟|妹妹|哥哥|姐姐)",
    r"我(?:的)?(?:生日|电话|電話|邮箱|郵箱|妻子|丈夫|老婆|老公|男朋友|女朋友|儿子|兒子|女儿|女兒|爸爸|妈妈|媽媽|父亲|母亲|专业|專業|工作|公司"
    r"|职业|職業|男友|女友|名字)(?:是|叫|在|就是|名叫)",
    r"名前は|と申します|(?:って|と)呼んで(?:くださ|ね)|に住んで(?:い|ます)|で働いて|に勤めて|出身です|歳です|(?:学生|会社員|エンジニア|教師"
    r"|医者|主婦|看護師)です|を飼って",
    r"(?:제|내) 이름은|라고 불러|에 살(?:아|고|며|습니다|지만)|에서 (?:일|근무)(?:해|하|합)|출신(?:이|입)"
    r"|(?:저는|나는|전|난) [^?]{1,20}(?:입니다|이에요|예요|이야)|키우고 있",
    r"\bменя зовут|\bмо[её] имя|\bя живу|\bя работаю|\bя учусь|\bя родил(?:ся|ась)|\bя (?:сам|сама )?из [А-ЯЁ]"
    r"|\bмне \d+ (?:лет|год)"
    r"|\bу меня (?:есть )?(?:\w+ )?(?:жена|муж|сын|дочь|дети|детей|кошка|кот|собака|брат|сестра)"
    r"|\bмо[йяи] (?:жена|муж|сын|дочь|мама|папа|брат|сестра|день рождения|начальни\w+|собака|кот|кошка)",
    r"(?:^|\s)(?:و?اسمي|(?:أنا )?(?:أعيش|أسكن|أقيم|أعمل|أدرس) (?:في|لدى|ك|مع)|أنا من |(?:و|أنا )?ولدت في|عمري"
    r"|أنا (?:مهندس|طبيب|معلم"
    r"|طالب|مبرمج|محام)|(?:زوجتي|زوجي|ابني|ابنتي|أخي|أختي|أمي|أبي|مديري) )",
    r"\bme llamo\b|\bmi nombre es\b|\bvivo (?:en|con)\b|\btrabajo (?:en|como|para|de)\b|\bsoy de [A-Z]|\bnací en\b"
    r"|\btengo \d+ años"
    r"|\bmis? (?:esposa|esposo|marido|mujer|novi[oa]|hij[oa]s?|herman[oa]s?|madre|padre|perr[oa]|gat[oa]|cumpleaños"
    r"|jef[ea])"
    r" (?:es|son|se llaman?|vive|tiene)\b|\bestudio (?:en|medicina|derecho|ingenier)",
    r"\bje m['’]appelle\b|\bmon (?:nom|prénom) est\b|\bj['’]habite\b|\bje vis (?:à|en|au|avec)\b|\bje travaille\b"
    r"|\bje viens d[eu]\b"
    r"|\bje suis née?\b|\bj['’]ai \d+ ans\b|\b(?:ma|mon|mes) (?:femme|mari|fils|fille|enfants|frère|sœur|mère|père"
    r"|chien|chat"
    r"|anniversaire|patron|copine|copain) (?:est|sont|s['’]appelle|a|habite)\b|\bj['’]étudie\b",
    r"\bich hei(?:ß|ss)e\b|\bmein name ist\b|\bich (?:wohne|lebe)\b|\bich arbeite (?:bei|als|in|für|an)\b"
    r"|\bich komme aus\b"
    r"|\bich bin (?:\d+ jahre|in .{1,30} geboren|\w+(?:in|er) von beruf)|\bich studiere\b|\b(?:meine?) (?:frau|mann"
    r"|sohn|tochter|kinder"
    r"|bruder|schwester|mutter|vater|hund|katze|chefin?|geburtstag|freund|freundin) (?:ist|sind|heißt|heisst|hat"
    r"|wohnt|arbeitet)\b",
    r"\bmeu nome é\b|\bme chamo\b|\bchamo-me\b|\bmoro (?:em|no|na|com)\b|\bvivo (?:em|no|na)\b|\btrabalho (?:em|na"
    r"|no|como|para|com)\b"
    r"|\bsou d[eao] [A-Z]|\bnasci em\b|\btenho \d+ anos|\b(?:meu|minha) (?:esposa|marido|mulher|filh[oa]|irmã?o?|mãe"
    r"|pai|cachorr[oa]"
    r"|gat[oa]|aniversário|chefe|namorad[oa]) (?:é|são|se chama|mora|tem)\b",
    r"मेरा नाम|मैं .{1,40}(?:में|पर) (?:रहत|काम कर|पढ़त)|मैं .{1,30} से हूँ|मेरी उम्र|मेर[ीे] (?:पत्नी|पति|बेटी|बेटे"
    r"|माँ|पिता|बहन|भाई)"
    r"|मैं (?:एक )?(?:इंजीनियर|डॉक्टर|शिक्षक|छात्र)",
)
_DECISION = (
    r"\b(?:we|i)(?:['’]ve| have)? (?:just |finally |also )?(?:decided|agreed|settled on|opted|chose|have chosen"
    r"|committed to)\b",
    r"\blet['’]?s (?:just )?(?:use|go with|stick with|stick to|switch to|call it|name it|keep (?:it|the)"
    r"|settle on)\b",
    r"\bwe(?:['’]ll| will|['’]re going to| are going to) (?:use|go with|stick with|switch to|drop|support|ship"
    r"|deploy)\b"
    r"|\b(?:the|our|my) (?:plan|decision) is\b|^\W*(?:decision|decided|agreed)\s*[:：]",
    r"我(?:们|們)?(?:已经|已經|最终|最終|最后|最後|还是|還是|刚|終於|终于)?(?:决定|決定|商量好|说好|說好|约好|約好|敲定|选定|選定)(?!不了)"
    r"|我们(?:就)?(?:用|采用|改用|选)(?!什么|哪)|最终方案|決定採用",
    r"ことにし(?:まし)?た|に決め(?:まし)?た|に決定|を使うことに|でいきましょう|を使いましょう",
    r"기로 (?:했|결정|하였)|결정했|(?:을|를|으로|로) (?:쓰|사용하|가|하)자\b",
    r"\b(?:мы|я) (?:\w+ )?(?:решили?|решила|договорились|выбрали|остановились на|будем использовать)"
    r"|\bдавай(?:те)? (?:использовать|возьм|остановимся|перейд)",
    r"(?:^|\s)(?:لقد )?(?:قررنا|قررت|اتفقنا|اخترنا)|(?:لنستخدم|دعنا نستخدم|سنستخدم)",
    r"\b(?:hemos |he )?(?:decidimos|decidido|decidí|acordamos|acordado|quedamos en|optamos por)\b|\b(?:usemos"
    r"|vamos a usar"
    r"|vayamos con)\b",
    r"\b(?:on a|nous avons|j['’]ai) (?:\w+ )?(?:décidé|choisi|convenu)\b|\b(?:on va|nous allons) utiliser\b"
    r"|\butilisons\b"
    r"|\b(?:on part|partons) sur\b",
    r"\b(?:wir haben|ich habe)\b.{0,80}\b(?:entschieden|beschlossen|vereinbart|ausgemacht)\b"
    r"|\bwir (?:haben uns geeinigt"
    r"|nehmen|verwenden|nutzen|bleiben bei)\b|\blass(?:t)? uns .{1,40}\b(?:nehmen|verwenden|nutzen)\b",
    r"\b(?:decidimos|decidi|combinamos|ficou decidido|optamos por)\b|\bvamos (?:usar|ficar com)\b",
    r"हमने .{0,40}(?:तय|फ़?ैसला|फैसला|निर्णय|चुना)|मैंने .{0,40}(?:तय|फैसला|निर्णय)|चलो .{1,30}(?:इस्तेमाल|उपयोग)",
)
_STANDING = (
    r"\bfrom now on\b|\bgoing forward\b|\bfrom here on\b|\bhenceforth\b|\bin (?:the )?future,? (?:please|always"
    r"|never|use|do|only)"
    r"|\bfor future (?:sessions|conversations|chats)\b",
    r"^\W*(?:(?:and|also|but|so|please|pls|ok|okay|oh|you (?:must|should))[,:]? )*(?:always|never|only ever) (?:use"
    r"|write"
    r"|answer|reply|respond|include|add|run|ask|put|check|call|keep|format|start|end|show|give|do|make|speak|explain"
    r"|say"
    r"|commit|test|read|translate|send|wrap|cite|confirm|remind|address|let|tell|return|print|create|update|delete"
    r"|push"
    r"|merge|edit|touch|change|assume|install|import|work|talk|mention|share|suggest|recommend|book|order|buy"
    r"|schedule)\b",
    r"\b(?:please|you (?:must|should)) (?:always|never)\b|\bmake sure (?:to|you|that you) always\b|\bdo(?:n['’]?t"
    r"| not) ever\b",
    r"从现在(?:开始|起)|從現在(?:開始|起)|从今(?:以后|往后|天起)|以后(?:请|都|不要|别|要|就|每)|以後(?:請|都|不要|別|要|就|每)|今后(?:请|都|不要)"
    r"|今後(?:請|都|不要)|^(?:请|請)?(?:总是|總是|始终|始終|一律|每次都|永远不要|永遠不要|绝不要|千万不要|千萬不要|务必|務必)",
    r"今後は|これから(?:は|も)|(?:いつも|必ず|常に).{1,40}(?:してくださ|して下さ|使って|書いて|ください)|絶対に.{1,30}(?:しないで|使わないで)",
    r"앞으로(?:는|도)? |이제부터|(?:항상|언제나|반드시) .{1,40}(?:줘|세요|해라|하십시오)|절대(?:로)? .{1,30}(?:마|말)",
    r"\b(?:отныне|впредь|с этого момента|с этих пор|в дальнейшем|на будущее)\b|^\W*(?:пожалуйста, )?(?:всегда"
    r"|никогда не)"
    r" [а-яё]+(?:й|йте|и|ите|ь|ьте)\b",
    r"من الآن فصاعد|بعد الآن|من اليوم فصاعد|في المستقبل|(?:^|\s)دائم[اًا]+ (?:اكتب|استخدم|أجب|رد)"
    r"|لا .{1,20} أبد[اًا]",
    r"\b(?:de|desde) ahora en adelante\b|\ba partir de ahora\b|\ben el futuro\b"
    r"|^\W*(?:por favor,? )?(?:siempre (?:usa|escribe"
    r"|responde|incluye|pon)|nunca (?:uses|escribas|respondas|pongas))\b",
    r"\bdésormais\b|\bà partir de maintenant\b|\bdorénavant\b|\bà l['’]avenir\b|^\W*(?:s['’]il (?:te"
    r"|vous) plaît,? )?(?:utilise"
    r"|réponds|écris)[sz]? toujours\b|\bn['’]utilise[zs]? jamais\b",
    r"\b(?:ab jetzt|von (?:nun|jetzt) an|ab sofort|künftig|zukünftig|in zukunft)\b"
    r"|^\W*(?:bitte )?(?:\w+e? )?(?:immer|nie|niemals)"
    r" .{1,60}(?:en|st)\W*$|^\W*(?:antworte|schreib|nutze|verwende|benutze)e? (?:bitte )?(?:immer|nie|nur)\b",
    r"\b(?:de agora em diante|a partir de agora|daqui (?:pra|para) (?:a )?frente|no futuro)\b"
    r"|^\W*(?:por favor,? )?(?:sempre (?:use"
    r"|usa|escreva|responda|inclua)|nunca (?:use|usa|escreva|responda))\b",
    r"अब से|आगे से|आज के बाद|^(?:कृपया )?(?:हमेशा|कभी भी).{1,40}(?:करें|करो|दें|दो|लिखें|लिखो|करना)",
)

_EVENT = (
    r"\b(?:deadline|due|appointment|meeting|exam|midterm|finals|interview|wedding|birthday|anniversary|flight|trip"
    r"|conference"
    r"|release|launch|party|surgery|vacation|holiday|concert|recital|tournament|race|marathon|presentation|demo"
    r"|review|go(?:es)? live"
    r"|ships?|expires?|renew\w*|submission|workshop|ceremony|graduation|hearing|move|moving)\b",
    r"截止|期限|到期|会议|會議|开会|開會|考试|考試|面试|面試|生日|婚礼|婚禮|纪念日|約會|约会|聚会|聚會|航班|出差|旅行|旅游|比赛|比賽|演出|发布|發佈|上线|上線"
    r"|答辩|手术|手術|预约|預約|交付|提交|婚期|开学",
    r"締め?切|期限|納期|予約|会議|試験|面接|誕生日|結婚式|旅行|出張|発表|打ち合わせ|締切",
    r"마감|기한|회의|시험|면접|생일|결혼식|여행|출장|예약|발표|약속",
    r"\b(?:дедлайн|срок\w*|встреч\w+|совещани\w+|экзамен\w*|собеседовани\w+|день рождения|рейс\w*|свадьб\w+"
    r"|отпуск\w*|релиз\w*"
    r"|сдать|сда[её]м|при[её]м\w*|поездк\w+)",
    r"موعد|اجتماع|امتحان|مقابلة|عيد ميلاد|رحلة|زفاف|تسليم|إطلاق",
    r"\b(?:fecha límite|plazo|vence|reunión|examen|entrevista|cumpleaños|vuelo|boda|cita|entrega|lanzamiento"
    r"|viaje)\b",
    r"\b(?:date limite|échéance|réunion|rendez-vous|examen|entretien|anniversaire|vol|mariage|livraison|lancement"
    r"|voyage)\b",
    r"\b(?:frist|abgabe\w*|termin|deadline|besprechung|prüfung|geburtstag|flug|hochzeit|urlaub|meeting|liefer\w+"
    r"|reise|fällig"
    r"|vorstellungsgespräch)\b",
    r"\b(?:prazo|reunião|prova|exame|entrevista|aniversário|voo|casamento|entrega|consulta|viagem|lançamento)\b",
    r"समय ?सीमा|अंतिम तिथि|डेडलाइन|बैठक|मीटिंग|परीक्षा|इंटरव्यू|जन्मदिन|शादी|उड़ान|यात्रा",
)
_WHEN = (
    r"\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b\d{1,2}:\d\d\b",
    r"\b(?:tomorrow|tonight|(?:next|this|coming|by|on|until|before) (?:the )?(?:mon|tues|wednes|thurs|fri|satur"
    r"|sun)day|(?:next|(?<!earlier )this) (?:week"
    r"|weekend|month|year|quarter|spring|summer|fall|autumn|winter)|in (?:a|two|three|four|\d+) (?:days?|weeks?"
    r"|months?)"
    r"|(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)\w*\.? \d{1,2}(?:st|nd|rd|th)?\b|\d{1,2}(?:st|nd|rd"
    r"|th)?"
    r" (?:of )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*|on the \d{1,2}(?:st|nd|rd|th)|eod|eow"
    r"|end of (?:the )?(?:day|week"
    r"|month|quarter|year))\b",
    r"明天|后天|後天|今晚|下(?:个|個)?(?:周|週|月|星期|礼拜)|这周|本周|這週|(?:周|週|星期|礼拜)[一二三四五六日天]|[\d一二三四五六七八九十]{1,3}月"
    r"[\d一二三四五六七八九十]{0,3}|[\d一二三四五六七八九十]{1,3}[号號日]|月底|年底",
    r"明日|明後日|来週|来月|今週|[月火水木金土日]曜|\d{1,2}月|\d{1,2}日",
    r"내일|모레|다음 ?(?:주|달)|이번 ?(?:주|달)|[월화수목금토일]요일|\d{1,2}월|\d{1,2}일",
    r"\b(?:завтра|послезавтра|в (?:понедельник|вторник|среду|четверг|пятницу|субботу|воскресенье)|(?:на )?следующ\w+"
    r"|через \w+ (?:дн|нед"
    r"|мес)\w*|\d{1,2} (?:январ|феврал|март|апрел|ма[яй]|июн|июл|август|сентябр|октябр|ноябр|декабр)\w*|до \d{1,2})",
    r"غد[اًا]|الأسبوع القادم|الشهر القادم|يوم (?:الاثنين|الإثنين|الثلاثاء|الأربعاء|الخميس|الجمعة|السبت|الأحد)"
    r"|\d{1,2} (?:يناير|فبراير|مارس"
    r"|أبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر)",
    r"\b(?:mañana|pasado mañana|(?:el |este |próximo )?(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)"
    r"|próxim\w+ (?:semana|mes)"
    r"|\d{1,2} de (?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre))\b",
    r"\b(?:demain|après-demain|(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)|(?:semaine|mois) prochaine?"
    r"|\d{1,2}(?:er)? (?:janvier"
    r"|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre))\b",
    r"\b(?:morgen|übermorgen|(?:am |bis |nächsten )?(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)"
    r"|nächste[nr]? (?:woche"
    r"|monat)|\d{1,2}\. ?(?:\d{1,2}\.|januar|februar|märz|april|mai|juni|juli|august|september|oktober|november"
    r"|dezember))",
    r"\b(?:amanhã|(?:segunda|terça|quarta|quinta|sexta)(?:-feira)?|sábado|domingo|próxim[ao] (?:semana|mês)"
    r"|\d{1,2} de (?:janeiro|fevereiro"
    r"|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro))\b",
    r"कल|परसों|अगले (?:हफ़?्ते|सप्ताह|महीने)|(?:सोम|मंगल|बुध|गुरु|शुक्र|शनि|रवि)वार|\d{1,2} (?:जनवरी|फरवरी|मार्च"
    r"|अप्रैल|मई|जून|जुलाई|अगस्त"
    r"|सितंबर|अक्टूबर|नवंबर|दिसंबर)",
)
_PASSING = (
    # Wishes, politeness, praise, talk about remembering, and what holds only under a condition.
    r"\b(?:do|did|can|could|would|will|don['’]t|didn['’]t|have) you (?:remember|know|like|prefer|have|want)\b",
    r"\bi (?:can['’]?t|cannot|don['’]?t|do not|didn['’]?t|barely|vaguely|still|just|also|do|will"
    r"|['’]ll)? ?remember(?:ed)?\b",
    r"\bi (?:really |just |also )?(?:like|love|enjoy|hate) (?:the|your|how|what|where|when|seeing|hearing|to (?:see"
    r"|hear|know|say|ask|think"
    r"|break|bother|admit)|talking (?:to|with) you|chatting)\b(?! \w+ (?:more|better|best|most)\b)",
    r"\bi(?:['’]d| would) (?:like|love|prefer) (?:to|it if|you)\b",
    r"^\W*(?:if|when|unless|suppose|imagine|what if) (?:i|we|you)\b",
    r"\b(?:my|our) (?:name|address|e-?mail) (?:is|are) (?:not|wrong|missing)\b",
    r"\bi (?:hate|don['’]t like) (?:to|when|that|this|how)\b|\blove you\b|\bi(?:['’]d| would) rather not say\b",
    r"(?:remember|forget)\b[,:]? (?:to (?:take|stay|be|keep|enjoy|have|pause|rest|breathe|relax)\b|it['’]?s (?:never"
    r"|ok|okay"
    r"|important|about|not|always)\b|every\b|life\b|that you\b|you(?:['’]re|['’]ve|r)?\b|we['’]re in\b)",
    r"\b(?:one|some|any|few|lots|many|of) (?:of )?(?:my|our) fav|\b(?:that|which|who|things?|ones?"
    r"|\w+s) i (?:really )?(?:like|love"
    r"|enjoy)\b(?=\W*$| and\b)|(?:都|这|那|也|這)是我|^记住了|^記住了",
    r"\bnever mind\b|\balways (?:here|there) for\b|\bdue to\b|\bcode review\b|\bpull request\b",
    r"我(?:不|还|還|都)?(?:记得|記得)|你(?:还|還)?(?:记得|記得)|喜欢(?:你|这个|这样|的话)|我(?:很|真)?爱你|喜歡(?:你|這個)|如果我|要是我|假如",
    r"^(?:如果|要是|假如|もし|만약|если|لو |si |wenn |falls |se |अगर|यदि)",
    r"\b(?:me gustaría|gostaria|j['’]aimerais|ich (?:möchte|würde)|я (?:хотел|хочу))\b",
)


_LATIN = re.compile(r"(?<!\\)[a-z]{3}")


class Cue:
    """Patterns of all languages; a text in ASCII is not compared with those that hold no word in it."""

    def __init__(self, *patterns: str) -> None:
        self._all = _joined(patterns)
        self._latin = _joined([pattern for pattern in patterns if pattern.isascii() or _LATIN.search(pattern)])

    def search(self, text: str) -> re.Match[str] | None:
        return (self._latin if text.isascii() else self._all).search(text)


def _joined(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


CUES: dict[Kind, Cue] = {
    "remember": Cue(*_REMEMBER),
    "standing": Cue(*_STANDING),
    "identity": Cue(*_IDENTITY),
    "preference": Cue(*_PREFERENCE),
    "decision": Cue(*_DECISION),
}
EVENT, WHEN = Cue(*_EVENT), Cue(*_WHEN)
PASSING = Cue(*_PASSING)
