"""Short passages of our own in many scripts, and machine text made from fixed seeds, for counting tokens.

Each group holds texts for fitting the estimator and other texts for checking it.
"""

import base64
import csv
import io
import json
import random
import uuid

FIT = {
    "japanese": [
        "昨日の会議では、新しい予約システムの日程について話し合いました。開発チームは来月の初めに最初の"
        "版を公開したいと考えていますが、テストの時間が足りないという意見もありました。担当者の田中さん"
        "は、まず社内だけで二週間ほど使ってみて、問題がなければお客様に案内する、という案を出しました。"
        "費用は予算の範囲内に収まる見込みです。",
        "すみません、このエラーはどうすれば直りますか。データベースに接続しようとすると、タイムアウトし"
        "てしまいます。設定ファイルのポート番号は確認しましたが、間違っていないようです。",
    ],
    "korean": [
        "어제 회의에서는 새로운 예약 시스템의 일정에 대해 이야기했습니다. 개발팀은 다음 달 "
        "초에 첫 번째 버전을 공개하고 싶어 하지만 테스트할 시간이 부족하다는 의견도 있었습니다. "
        "담당자는 먼저 회사 안에서 이 주 정도 사용해 보고 문제가 없으면 고객에게 안내하자고 "
        "제안했습니다.",
        "안녕하세요, 주문한 물건이 아직 도착하지 않아서 연락드립니다. 배송 조회를 해 보니 사흘 "
        "전부터 상태가 바뀌지 않았습니다.",
    ],
    "russian": [
        "Вчера на совещании мы обсуждали сроки запуска новой системы бронирования. Команда "
        "разработки хочет выпустить первую версию в начале следующего месяца, но некоторые "
        "считают, что времени на проверку не хватит. Ответственный предложил сначала две недели "
        "пользоваться системой внутри компании и только потом рассказать о ней клиентам.",
        "Здравствуйте! Подскажите, пожалуйста, почему сервер не отвечает после обновления. "
        "В журнале ошибок нет, порт открыт.",
    ],
    "arabic": [
        "ناقشنا في اجتماع الأمس مواعيد إطلاق نظام الحجز الجديد. يريد فريق التطوير نشر الإصدار "
        "الأول في بداية الشهر القادم، لكن بعض الزملاء يرون أن الوقت المخصص للاختبار غير كاف. "
        "واقترح المسؤول أن نستخدم النظام داخل الشركة لمدة أسبوعين قبل أن نعلنه للعملاء، وأن "
        "نراجع التكاليف في نهاية كل أسبوع.",
        "مرحبا، لم يصل طلبي حتى الآن. هل يمكنكم التحقق من حالة الشحنة وإخباري بالموعد المتوقع للتسليم؟",
    ],
    "hindi": [
        "कल की बैठक में हमने नई आरक्षण प्रणाली की समय सीमा पर बात की। विकास दल अगले महीने की "
        "शुरुआत में पहला संस्करण जारी करना चाहता है, लेकिन कुछ लोगों का मानना है कि जाँच के "
        "लिए समय कम है। प्रभारी ने सुझाव दिया कि पहले दो सप्ताह तक इसे कंपनी के अंदर इस्तेमाल "
        "किया जाए।",
        "नमस्ते, मेरा ऑर्डर अभी तक नहीं आया है। कृपया बताइए कि वह कब तक पहुँचेगा और मुझे किससे संपर्क करना चाहिए।",
    ],
    "thai": [
        "เมื่อวานนี้เราประชุมเรื่องกำหนดการเปิดใช้ระบบจองใหม่ ทีมพัฒนาต้องการเผยแพร่รุ่นแรกในต้นเดือนหน้า "
        "แต่บางคนเห็นว่าเวลาสำหรับการทดสอบยังไม่พอ ผู้รับผิดชอบจึงเสนอให้ทดลองใช้ภายในบริษัทก่อนสองสัปดาห์",
    ],
    "european": [
        "Gestern haben wir über den Zeitplan für das neue Buchungssystem gesprochen. Die Entwickler "
        "möchten die erste Version Anfang nächsten Monats veröffentlichen, doch einige Kollegen "
        "fürchten, dass die Zeit für Prüfungen nicht ausreicht.",
        "Hier, nous avons parlé du calendrier du nouveau système de réservation. L'équipe souhaite "
        "publier la première version au début du mois prochain, mais certains collègues pensent "
        "que le temps prévu pour les essais est trop court.",
        "Ayer hablamos de los plazos del nuevo sistema de reservas. El equipo quiere publicar "
        "la primera versión a principios del mes que viene, pero algunos compañeros creen que "
        "no habrá tiempo suficiente para hacer las pruebas.",
    ],
    "greek": [
        "Χθες συζητήσαμε τις προθεσμίες για το νέο σύστημα κρατήσεων. Η ομάδα θέλει να παρουσιάσει "
        "την πρώτη έκδοση στις αρχές του επόμενου μήνα, αλλά κάποιοι πιστεύουν ότι ο χρόνος "
        "για τις δοκιμές δεν αρκεί.",
    ],
    "hebrew": [
        "בפגישה של אתמול דיברנו על לוח הזמנים של מערכת ההזמנות החדשה. הצוות רוצה להוציא את "
        "הגרסה הראשונה בתחילת החודש הבא, אבל יש מי שחושב שלא נשאר מספיק זמן לבדיקות.",
    ],
    "vietnamese": [
        "Trong cuộc họp hôm qua, chúng tôi đã bàn về lịch ra mắt hệ thống đặt chỗ mới. Nhóm "
        "phát triển muốn công bố phiên bản đầu tiên vào đầu tháng sau, nhưng một số người cho "
        "rằng thời gian kiểm thử chưa đủ.",
    ],
    "emoji": [
        "Great job everyone 🎉🎉 the release is out 🚀! Thanks 🙏 to the whole team 👩‍💻👨‍💻,"
        " see you at the party 🥳🍕",
        "😀😂🤣😊😍🥰😘😎🤔😴😡😭👍👎👏🙌💪🔥✨⭐️❤️💔✅❌⚠️🚧📌📎📅📈📉🔒🔑",
    ],
}

CHECK = {
    "japanese": [
        "この記事では、小さな会社が顧客からの問い合わせをどのように整理しているかを紹介します。"
        "以前はメールと電話の記録が別々の場所に保存されていて、同じ質問に何度も答えることがよくありまし"
        "た。今は一つの画面で履歴を確認でき、返事までの時間が半分になりました。ただし、古い記録を移す作"
        "業には思ったより手間がかかったそうです。",
        "了解です。明日の朝九時にもう一度バックアップを取ってから、サーバーを再起動してください。"
        "終わったら連絡をお願いします。",
    ],
    "korean": [
        "이 글에서는 작은 회사가 고객 문의를 어떻게 정리하는지 소개합니다. 예전에는 이메일과 "
        "전화 기록이 서로 다른 곳에 저장되어 있어서 같은 질문에 여러 번 답하는 일이 많았습니다. "
        "지금은 한 화면에서 기록을 확인할 수 있고 답변까지 걸리는 시간이 절반으로 줄었습니다.",
    ],
    "russian": [
        "В этой статье рассказывается, как небольшая фирма навела порядок в обращениях покупателей. "
        "Раньше письма и записи звонков хранились в разных местах, и на один и тот же вопрос "
        "приходилось отвечать по несколько раз. Теперь вся история видна на одном экране, а "
        "ответ приходит вдвое быстрее.",
    ],
    "arabic": [
        "تشرح هذه المقالة كيف نظمت شركة صغيرة رسائل عملائها. كانت الرسائل وسجلات المكالمات "
        "محفوظة في أماكن مختلفة، ولذلك كان الموظفون يجيبون عن السؤال نفسه مرات كثيرة. أما الآن "
        "فيظهر السجل كله في شاشة واحدة، وانخفض وقت الرد إلى النصف.",
    ],
    "hindi": [
        "यह लेख बताता है कि एक छोटी कंपनी ने ग्राहकों के सवालों को कैसे व्यवस्थित किया। पहले "
        "ईमेल और फ़ोन के रिकॉर्ड अलग-अलग जगह रखे जाते थे, इसलिए एक ही सवाल का जवाब कई बार देना "
        "पड़ता था। अब पूरा इतिहास एक ही स्क्रीन पर दिखता है और जवाब आधे समय में मिल जाता है।",
    ],
    "thai": [
        "บทความนี้เล่าว่าบริษัทเล็กแห่งหนึ่งจัดการคำถามของลูกค้าอย่างไร แต่ก่อนอีเมลกับบันทึกการโทรเก็บไว้คนละที่ "
        "จึงต้องตอบคำถามเดิมหลายครั้ง ตอนนี้ดูประวัติทั้งหมดได้ในหน้าจอเดียว",
    ],
    "european": [
        "Dieser Artikel beschreibt, wie eine kleine Firma die Anfragen ihrer Kunden geordnet "
        "hat. Früher lagen Briefe und Gesprächsnotizen an verschiedenen Stellen, und dieselbe "
        "Frage musste mehrmals beantwortet werden.",
        "Cet article raconte comment une petite entreprise a mis de l'ordre dans les demandes "
        "de ses clients. Autrefois, les courriels et les notes d'appel étaient rangés à des "
        "endroits différents.",
        "Artykuł opisuje, jak mała firma uporządkowała pytania klientów. Dawniej listy i notatki "
        "z rozmów leżały w różnych miejscach, więc na to samo pytanie trzeba było odpowiadać "
        "kilka razy.",
    ],
    "greek": [
        "Το άρθρο περιγράφει πώς μια μικρή εταιρεία τακτοποίησε τις ερωτήσεις των πελατών της. "
        "Παλαιότερα τα μηνύματα και οι σημειώσεις φυλάσσονταν σε διαφορετικά μέρη.",
    ],
    "hebrew": [
        "המאמר מתאר כיצד חברה קטנה עשתה סדר בפניות של הלקוחות שלה. בעבר נשמרו המכתבים ורישומי "
        "השיחות במקומות שונים, ועל אותה שאלה היה צריך לענות כמה פעמים.",
    ],
    "vietnamese": [
        "Bài viết này kể về cách một công ty nhỏ sắp xếp các câu hỏi của khách hàng. Trước "
        "đây thư và ghi chú cuộc gọi được lưu ở nhiều nơi khác nhau, nên phải trả lời cùng "
        "một câu hỏi nhiều lần.",
    ],
    "emoji": [
        "Reminder ⏰: standup at 9 ☕, demo at 3 💻, then cake 🎂🍰 for Ana's birthday 🎁🎈 — don't be late 😅",
        "🐶🐱🐭🐹🐰🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵🌱🌲🌳🌴🌵🍎🍊🍋🍌🍉🍇🍓⚽🏀🏈⚾🎾",
    ],
}


def _hexadecimal(rng: random.Random) -> str:
    return rng.randbytes(2000).hex()


def _base64(rng: random.Random) -> str:
    return base64.b64encode(rng.randbytes(3000)).decode()


def _base64_lines(rng: random.Random) -> str:
    return base64.encodebytes(rng.randbytes(3000)).decode()


def _jwt(rng: random.Random) -> str:
    parts = (base64.urlsafe_b64encode(rng.randbytes(size)).decode().rstrip("=") for size in (40, 300, 64))
    return "Authorization: Bearer " + ".".join(parts)


def _uuids(rng: random.Random) -> str:
    return "\n".join(str(uuid.UUID(bytes=rng.randbytes(16))) for _ in range(60))


def _checksums(rng: random.Random) -> str:
    return "\n".join(f"{rng.randbytes(32).hex()}  dist/package-{index}.tar.gz" for index in range(40))


def _numbers(rng: random.Random) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows([index, rng.randint(0, 99_999), round(rng.random() * 100, 4)] for index in range(150))
    return out.getvalue()


def _embedding(rng: random.Random) -> str:
    return json.dumps([round(rng.uniform(-1, 1), 8) for _ in range(200)])


def _escaped(rng: random.Random) -> str:
    return json.dumps({"text": "".join(chr(rng.randint(0x4E00, 0x9FA5)) for _ in range(400))})


def _letters(rng: random.Random) -> str:
    return "".join(rng.choices("acdefghiklmnpqrstvwy", k=3000))


def _capitals(rng: random.Random) -> str:
    return "".join(rng.choices("ACDEFGHIKLMNPQRSTVWY", k=3000))


def _constants(rng: random.Random) -> str:
    words = [
        "MAX",
        "TOKEN",
        "LIMIT",
        "DEFAULT",
        "TIMEOUT",
        "SECONDS",
        "CACHE",
        "SIZE",
        "ERROR",
        "CODE",
        "RETRY",
        "HOST",
    ]
    return "\n".join(f"{'_'.join(rng.sample(words, 3))} = {rng.randint(1, 500)}" for _ in range(80))


def _ruled(rng: random.Random) -> str:
    lines = []
    for index in range(30):
        rule = rng.choice("=-*#") * rng.randint(40, 100)
        lines += [rule, f"test session {index} starts", rule, f"collected {rng.randint(1, 90)} items", ""]
    return "\n".join(lines)


MACHINE = {
    "random letters": _letters,
    "random capitals": _capitals,
    "constants": _constants,
    "ruled output": _ruled,
    "hex": _hexadecimal,
    "base64": _base64,
    "base64 lines": _base64_lines,
    "jwt": _jwt,
    "uuids": _uuids,
    "checksums": _checksums,
    "numbers csv": _numbers,
    "embedding": _embedding,
    "escaped json": _escaped,
}


def texts(part: str) -> dict[str, list[str]]:
    """Group name to texts, of the part `fit` or `check`."""
    written = FIT if part == "fit" else CHECK
    made = {name: [make(random.Random(f"{part} {name} {n}")) for n in range(2)] for name, make in MACHINE.items()}
    return {**written, **made}
