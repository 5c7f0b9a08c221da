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
    "simplified chinese": [
        "昨天的会议讨论了新预订系统的进度。开发团队希望下个月初发布第一个版本,但有同事担心测试时间不够。"
        "负责人建议先在公司内部试用两周,没有问题再通知客户。",
    ],
    "traditional chinese": [
        "昨天的會議討論了新訂位系統的時程。開發團隊希望下個月初推出第一版,但有些同事擔心測試時間不夠。負"
        "責人建議先在公司內部試用兩個星期,沒有問題再通知客戶。",
    ],
    "japanese": [
        "昨日の会議では、新しい予約システムの日程について話し合いました。開発チームは来月の初めに最初の版"
        "を公開したいと考えていますが、テストの時間が足りないという意見もありました。担当者の田中さんは、"
        "まず社内だけで二週間ほど使ってみて、問題がなければお客様に案内する、という案を出しました。費用は"
        "予算の範囲内に収まる見込みです。",
        "すみません、このエラーはどうすれば直りますか。データベースに接続しようとすると、タイムアウトして"
        "しまいます。設定ファイルのポート番号は確認しましたが、間違っていないようです。",
    ],
    "korean": [
        "어제 회의에서는 새로운 예약 시스템의 일정에 대해 이야기했습니다. 개발팀은 다음 달 초에 첫 번째 "
        "버전을 공개하고 싶어 하지만 테스트할 시간이 부족하다는 의견도 있었습니다. 담당자는 먼저 회사 "
        "안에서 이 주 정도 사용해 보고 문제가 없으면 고객에게 안내하자고 제안했습니다.",
        "안녕하세요, 주문한 물건이 아직 도착하지 않아서 연락드립니다. 배송 조회를 해 보니 사흘 전부터 "
        "상태가 바뀌지 않았습니다.",
    ],
    "russian": [
        "Вчера на совещании мы обсуждали сроки запуска новой системы бронирования. Команда разработки "
        "хочет выпустить первую версию в начале следующего месяца, но некоторые считают, что времени на "
        "проверку не хватит. Ответственный предложил сначала две недели пользоваться системой внутри "
        "компании и только потом рассказать о ней клиентам.",
        "Здравствуйте! Подскажите, пожалуйста, почему сервер не отвечает после обновления. В журнале "
        "ошибок нет, порт открыт.",
    ],
    "ukrainian": [
        "Учора на нараді ми обговорили терміни запуску нової системи бронювання. Розробники хочуть "
        "випустити першу версію на початку наступного місяця, але дехто вважає, що часу на перевірку не "
        "вистачить.",
    ],
    "arabic": [
        "ناقشنا في اجتماع الأمس مواعيد إطلاق نظام الحجز الجديد. يريد فريق التطوير نشر الإصدار الأول في "
        "بداية الشهر القادم، لكن بعض الزملاء يرون أن الوقت المخصص للاختبار غير كاف. واقترح المسؤول أن "
        "نستخدم النظام داخل الشركة لمدة أسبوعين قبل أن نعلنه للعملاء، وأن نراجع التكاليف في نهاية كل "
        "أسبوع.",
        "مرحبا، لم يصل طلبي حتى الآن. هل يمكنكم التحقق من حالة الشحنة وإخباري بالموعد المتوقع للتسليم؟",
    ],
    "persian": [
        "دیروز در جلسه دربارهٔ زمان‌بندی سامانهٔ رزرو جدید صحبت کردیم. تیم توسعه می‌خواهد نسخهٔ اول را "
        "اوایل ماه آینده منتشر کند، اما بعضی از همکاران فکر می‌کنند وقت آزمایش کافی نیست.",
    ],
    "hindi": [
        "कल की बैठक में हमने नई आरक्षण प्रणाली की समय सीमा पर बात की। विकास दल अगले महीने की शुरुआत में "
        "पहला संस्करण जारी करना चाहता है, लेकिन कुछ लोगों का मानना है कि जाँच के लिए समय कम है। प्रभारी "
        "ने सुझाव दिया कि पहले दो सप्ताह तक इसे कंपनी के अंदर इस्तेमाल किया जाए।",
        "नमस्ते, मेरा ऑर्डर अभी तक नहीं आया है। कृपया बताइए कि वह कब तक पहुँचेगा और मुझे किससे संपर्क करना चाहिए।",
    ],
    "bengali": [
        "গতকালের সভায় আমরা নতুন বুকিং ব্যবস্থার সময়সূচি নিয়ে কথা বলেছি। উন্নয়ন দল আগামী মাসের শুরুতে "
        "প্রথম সংস্করণ প্রকাশ করতে চায়, কিন্তু কয়েকজনের মতে পরীক্ষার জন্য সময় কম।",
    ],
    "tamil": [
        "நேற்றைய கூட்டத்தில் புதிய முன்பதிவு அமைப்பின் கால அட்டவணை பற்றிப் பேசினோம். அடுத்த மாதத் "
        "தொடக்கத்தில் முதல் பதிப்பை வெளியிட குழு விரும்புகிறது, ஆனால் சோதனைக்கு நேரம் போதாது என்று சிலர் "
        "கருதுகிறார்கள்.",
    ],
    "thai": [
        "เมื่อวานนี้เราประชุมเรื่องกำหนดการเปิดใช้ระบบจองใหม่ ทีมพัฒนาต้องการเผยแพร่รุ่นแรกในต้นเดือนหน้า"
        " แต่บางคนเห็นว่าเวลาสำหรับการทดสอบยังไม่พอ ผู้รับผิดชอบจึงเสนอให้ทดลองใช้ภายในบริษัทก่อนสองสัปดา"
        "ห์",
    ],
    "european": [
        "Gestern haben wir über den Zeitplan für das neue Buchungssystem gesprochen. Die Entwickler "
        "möchten die erste Version Anfang nächsten Monats veröffentlichen, doch einige Kollegen "
        "fürchten, dass die Zeit für Prüfungen nicht ausreicht.",
        "Hier, nous avons parlé du calendrier du nouveau système de réservation. L'équipe souhaite "
        "publier la première version au début du mois prochain, mais certains collègues pensent que le "
        "temps prévu pour les essais est trop court.",
        "Ayer hablamos de los plazos del nuevo sistema de reservas. El equipo quiere publicar la primera "
        "versión a principios del mes que viene, pero algunos compañeros creen que no habrá tiempo "
        "suficiente para hacer las pruebas.",
    ],
    "greek": [
        "Χθες συζητήσαμε τις προθεσμίες για το νέο σύστημα κρατήσεων. Η ομάδα θέλει να παρουσιάσει την "
        "πρώτη έκδοση στις αρχές του επόμενου μήνα, αλλά κάποιοι πιστεύουν ότι ο χρόνος για τις δοκιμές "
        "δεν αρκεί.",
    ],
    "hebrew": [
        "בפגישה של אתמול דיברנו על לוח הזמנים של מערכת ההזמנות החדשה. הצוות רוצה להוציא את הגרסה הראשונה "
        "בתחילת החודש הבא, אבל יש מי שחושב שלא נשאר מספיק זמן לבדיקות.",
    ],
    "vietnamese": [
        "Trong cuộc họp hôm qua, chúng tôi đã bàn về lịch ra mắt hệ thống đặt chỗ mới. Nhóm phát triển "
        "muốn công bố phiên bản đầu tiên vào đầu tháng sau, nhưng một số người cho rằng thời gian kiểm "
        "thử chưa đủ.",
    ],
    "emoji": [
        "Great job everyone 🎉🎉 the release is out 🚀! Thanks 🙏 to the whole team 👩‍💻👨‍💻, see you "
        "at the party 🥳🍕",
        "😀😂🤣😊😍🥰😘😎🤔😴😡😭👍👎👏🙌💪🔥✨⭐️❤️💔✅❌⚠️🚧📌📎📅📈📉🔒🔑",
    ],
}

CHECK = {
    "simplified chinese": [
        "老板,我昨天买的那双鞋有点挤脚,能换大一码吗?盒子和小票我都留着。如果没货的话退款也行,大概几天能到账?",
        "外婆住在江南的一个小镇上,门前有条窄窄的河。夏天的傍晚,她总坐在石阶上摇着蒲扇,给我们讲从前的故事"
        "。河对岸的灯笼一盏盏亮起来,船桨划过水面,留下一道道细碎的波纹。",
        "部署说明:1. 先运行 `make build`,确认没有报错;2. 把 config.yaml 里的端口改成 8080;3. 重启 nginx "
        "服务,然后用 curl 检查 /health 接口是否返回 200。若出现超时,请查看 logs 目录下的最新日志。",
    ],
    "traditional chinese": [
        "請問一下,我上週訂的書到現在還沒收到,網站上顯示已經出貨了。可以幫我查一下目前的配送狀態嗎?如果弄"
        "丟了,希望能重新寄一份,謝謝您。",
        "這座城市的老街區保留了許多日治時期的建築。近年來,年輕人把閒置的倉庫改造成咖啡館與書店,週末時常舉"
        "辦市集和小型音樂會。居民一方面歡迎人潮帶來的生意,另一方面也擔憂房租上漲。",
    ],
    "japanese": [
        "この記事では、小さな会社が顧客からの問い合わせをどのように整理しているかを紹介します。以前はメー"
        "ルと電話の記録が別々の場所に保存されていて、同じ質問に何度も答えることがよくありました。今は一つ"
        "の画面で履歴を確認でき、返事までの時間が半分になりました。ただし、古い記録を移す作業には思ったよ"
        "り手間がかかったそうです。",
        "了解です。明日の朝九時にもう一度バックアップを取ってから、サーバーを再起動してください。終わった"
        "ら連絡をお願いします。",
        "駅前の喫茶店は、祖父の代から続いている。雨の日になると、常連の客が窓際の席に座り、古い新聞を読み"
        "ながら珈琲を飲む。店主は何も言わずに砂糖の瓶を置き、また静かに豆を挽きはじめる。",
        "インストール手順:まず `pip install -r requirements.txt` を実行し、次に設定ファイルの API "
        "キーを書き換えてください。エラーが出た場合は、Python のバージョンが 3.11 "
        "以上かどうかを確認します。",
        "ねえ、土曜日ひま?新しくできたラーメン屋さんに行ってみない?すごく並ぶらしいけど、開店前に行けば大丈夫だと思う!",
    ],
    "korean": [
        "이 글에서는 작은 회사가 고객 문의를 어떻게 정리하는지 소개합니다. 예전에는 이메일과 전화 기록이 "
        "서로 다른 곳에 저장되어 있어서 같은 질문에 여러 번 답하는 일이 많았습니다. 지금은 한 화면에서 "
        "기록을 확인할 수 있고 답변까지 걸리는 시간이 절반으로 줄었습니다.",
        "할머니는 바닷가 마을에서 작은 식당을 하셨다. 새벽이면 시장에 나가 싱싱한 생선을 고르고, "
        "점심때가 되면 어부들이 하나둘 모여들었다. 나는 방학마다 그곳에서 설거지를 도우며 파도 소리를 "
        "들었다.",
        "설치 방법: 먼저 `npm install`을 실행한 다음 .env 파일에 데이터베이스 주소를 입력하세요. 서버가 "
        "시작되지 않으면 포트 3000이 이미 사용 중인지 확인하고, 로그의 마지막 줄을 보내 주세요.",
        "내일 몇 시에 만날까? 나는 여섯 시쯤 퇴근하니까 일곱 시면 괜찮을 것 같아. 비 온다고 하니까 우산 꼭 챙겨!",
    ],
    "russian": [
        "В этой статье рассказывается, как небольшая фирма навела порядок в обращениях покупателей. "
        "Раньше письма и записи звонков хранились в разных местах, и на один и тот же вопрос приходилось "
        "отвечать по несколько раз. Теперь вся история видна на одном экране, а ответ приходит вдвое "
        "быстрее.",
        "Дедушка держал пасеку на краю леса. Летом мы вставали рано, пили чай с мёдом и шли проверять "
        "ульи. Он двигался медленно, разговаривал с пчёлами вполголоса и уверял, что они узнают его по "
        "шагам.",
        "Для установки выполните команду `docker compose up -d` и дождитесь, пока база данных будет "
        "готова. Если контейнер перезапускается, проверьте переменные окружения и свободное место на "
        "диске, затем посмотрите последние строки журнала.",
        "Привет! Ты уже купил билеты? Если нет, давай возьмём на вечерний поезд, он дешевле, и утром мы "
        "будем на месте.",
    ],
    "ukrainian": [
        "Бабуся жила в невеличкому селі біля річки. Влітку ми збирали вишні, сушили трави на горищі й "
        "слухали, як увечері співають жаби. Вона знала назву кожної квітки та вміла передбачати погоду "
        "за кольором неба.",
        "Добрий день! Я замовила чайник минулого тижня, але він досі не приїхав. Чи можете ви "
        "перевірити, де зараз посилка, і повідомити приблизну дату доставки?",
    ],
    "arabic": [
        "تشرح هذه المقالة كيف نظمت شركة صغيرة رسائل عملائها. كانت الرسائل وسجلات المكالمات محفوظة في "
        "أماكن مختلفة، ولذلك كان الموظفون يجيبون عن السؤال نفسه مرات كثيرة. أما الآن فيظهر السجل كله في "
        "شاشة واحدة، وانخفض وقت الرد إلى النصف.",
        "كان جدي يملك دكانا صغيرا في السوق القديم، يبيع فيه التوابل والقهوة. كنت أجلس بجانبه في أيام "
        "العطلة وأراقب الناس وهم يساومون على الأسعار، ثم نعود إلى البيت مشيا قبل غروب الشمس.",
        "لتثبيت البرنامج شغل الأمر `pip install` ثم عدل ملف الإعدادات وأدخل رقم المنفذ. إذا ظهرت رسالة "
        "خطأ فتأكد من أن الخادم يعمل ومن أن كلمة المرور صحيحة.",
    ],
    "persian": [
        "پدربزرگم باغ کوچکی در حاشیهٔ شهر داشت. تابستان‌ها زیر درخت گردو می‌نشستیم و او برایمان از "
        "روزگار جوانی‌اش می‌گفت. بوی نان تازه از خانهٔ همسایه می‌آمد و صدای آب در جوی کنار دیوار شنیده "
        "می‌شد.",
        "سلام، سفارشی که هفتهٔ پیش ثبت کردم هنوز نرسیده است. لطفاً بررسی کنید و بگویید چه روزی به دستم می‌رسد.",
    ],
    "hindi": [
        "यह लेख बताता है कि एक छोटी कंपनी ने ग्राहकों के सवालों को कैसे व्यवस्थित किया। पहले ईमेल और "
        "फ़ोन के रिकॉर्ड अलग-अलग जगह रखे जाते थे, इसलिए एक ही सवाल का जवाब कई बार देना पड़ता था। अब पूरा "
        "इतिहास एक ही स्क्रीन पर दिखता है और जवाब आधे समय में मिल जाता है।",
        "मेरे दादाजी गाँव में एक छोटी सी किताबों की दुकान चलाते थे। छुट्टियों में हम वहाँ बैठकर कहानियाँ "
        "पढ़ते और शाम को नदी के किनारे घूमने जाते। बरसात के दिनों में दुकान की छत टपकती थी, फिर भी लोग "
        "चाय पीने आ जाते थे।",
        "सर्वर चालू करने के लिए पहले `npm start` चलाएँ और फिर सेटिंग फ़ाइल में पोर्ट नंबर बदलें। अगर कोई "
        "त्रुटि दिखाई दे तो लॉग की आखिरी पंक्तियाँ हमें भेज दीजिए।",
    ],
    "bengali": [
        "আমার দাদুর একটি ছোট নৌকা ছিল। বর্ষাকালে আমরা সেই নৌকায় চড়ে নদী পার হয়ে হাটে যেতাম। সন্ধ্যায় "
        "ফেরার সময় তিনি গান গাইতেন আর দূরে গ্রামের আলো দেখা যেত।",
        "নমস্কার, আমার অর্ডারটি এখনও পৌঁছায়নি। দয়া করে জানাবেন এটি কোথায় আছে এবং কবে পাওয়া যাবে?",
    ],
    "tamil": [
        "என் தாத்தா கடற்கரை கிராமத்தில் ஒரு சிறிய கடை வைத்திருந்தார். விடுமுறை நாட்களில் நாங்கள் அங்கே "
        "உட்கார்ந்து அவர் சொல்லும் கதைகளைக் கேட்போம். மாலையில் மீனவர்கள் திரும்பி வரும்போது கடற்கரை "
        "முழுவதும் மகிழ்ச்சியாக இருக்கும்.",
        "வணக்கம், நான் கடந்த வாரம் வாங்கிய பொருள் இன்னும் வரவில்லை. தயவுசெய்து எப்போது கிடைக்கும் என்று தெரிவிக்கவும்.",
    ],
    "thai": [
        "บทความนี้เล่าว่าบริษัทเล็กแห่งหนึ่งจัดการคำถามของลูกค้าอย่างไร แต่ก่อนอีเมลกับบันทึกการโทรเก็บไว"
        "้คนละที่ จึงต้องตอบคำถามเดิมหลายครั้ง ตอนนี้ดูประวัติทั้งหมดได้ในหน้าจอเดียว",
        "คุณยายของฉันเปิดร้านขายขนมเล็กๆ อยู่ริมคลอง ตอนเช้าจะมีเรือพายผ่านหน้าบ้านไปตลาด เด็กๆ ชอบมานั่ง"
        "รอขนมร้อนๆ ที่เพิ่งออกจากเตา พอตกเย็นลมพัดเย็นสบายและได้ยินเสียงระฆังจากวัด",
        "สวัสดีค่ะ สั่งสินค้าไปเมื่อวันจันทร์แต่ยังไม่ได้รับเลยค่ะ รบกวนช่วยตรวจสอบสถานะการจัดส่งให้หน่อยได้ไหมคะ ขอบคุณค่ะ",
    ],
    "european": [
        "Dieser Artikel beschreibt, wie eine kleine Firma die Anfragen ihrer Kunden geordnet hat. Früher "
        "lagen Briefe und Gesprächsnotizen an verschiedenen Stellen, und dieselbe Frage musste mehrmals "
        "beantwortet werden.",
        "Cet article raconte comment une petite entreprise a mis de l'ordre dans les demandes de ses "
        "clients. Autrefois, les courriels et les notes d'appel étaient rangés à des endroits différents.",
        "Artykuł opisuje, jak mała firma uporządkowała pytania klientów. Dawniej listy i notatki z "
        "rozmów leżały w różnych miejscach, więc na to samo pytanie trzeba było odpowiadać kilka razy.",
        "Mein Großvater hatte eine kleine Werkstatt am Rande des Dorfes. Im Winter saßen wir am Ofen, "
        "während er alte Uhren reparierte und Geschichten aus seiner Jugend erzählte.",
        "Bonjour, j'ai commandé une lampe la semaine dernière et je ne l'ai toujours pas reçue. "
        "Pourriez-vous vérifier où se trouve le colis et me donner une date de livraison ?",
        "Mi abuela vivía en una casa blanca cerca del puerto. Por las tardes salíamos a pasear, "
        "comprábamos pescado fresco y hablábamos con los vecinos hasta que se encendían las farolas.",
        "Para instalar o programa, execute o comando `make install` e altere o ficheiro de configuração. "
        "Se o serviço não arrancar, verifique se a porta já está ocupada.",
        "Ciao, domani sera andiamo al cinema con gli altri? Il film comincia alle nove, ma possiamo "
        "mangiare qualcosa prima vicino alla stazione.",
        "Dědeček měl na kraji vesnice malou dílnu. V zimě jsme seděli u kamen a poslouchali, jak vypráví "
        "příběhy z mládí, zatímco opravoval staré hodiny.",
    ],
    "greek": [
        "Το άρθρο περιγράφει πώς μια μικρή εταιρεία τακτοποίησε τις ερωτήσεις των πελατών της. "
        "Παλαιότερα τα μηνύματα και οι σημειώσεις φυλάσσονταν σε διαφορετικά μέρη.",
        "Ο παππούς μου είχε ένα μικρό καφενείο δίπλα στη θάλασσα. Τα καλοκαίρια καθόμασταν κάτω από την "
        "κληματαριά και ακούγαμε τις ιστορίες των ψαράδων μέχρι αργά το βράδυ.",
        "Καλησπέρα, η παραγγελία μου δεν έχει φτάσει ακόμα. Μπορείτε να ελέγξετε πού βρίσκεται το δέμα "
        "και πότε θα το παραλάβω;",
    ],
    "hebrew": [
        "המאמר מתאר כיצד חברה קטנה עשתה סדר בפניות של הלקוחות שלה. בעבר נשמרו המכתבים ורישומי השיחות "
        "במקומות שונים, ועל אותה שאלה היה צריך לענות כמה פעמים.",
        "לסבא שלי הייתה חנות ספרים קטנה ליד הנמל. בקיץ ישבנו שם על המדרגות, שתינו לימונדה והקשבנו "
        "לסיפורים של המלחים עד שירד הערב.",
        "שלום, הזמנתי מנורה בשבוע שעבר והיא עדיין לא הגיעה. אפשר לבדוק איפה החבילה ומתי היא צפויה להגיע?",
    ],
    "vietnamese": [
        "Bài viết này kể về cách một công ty nhỏ sắp xếp các câu hỏi của khách hàng. Trước đây thư và "
        "ghi chú cuộc gọi được lưu ở nhiều nơi khác nhau, nên phải trả lời cùng một câu hỏi nhiều lần.",
        "Bà ngoại tôi sống trong một ngôi nhà nhỏ bên bờ sông. Mùa hè, chúng tôi thường ngồi dưới gốc "
        "xoài nghe bà kể chuyện ngày xưa, còn ông thì vá lưới và chuẩn bị thuyền để đi đánh cá.",
        "Chào shop, mình đặt hàng từ tuần trước mà đến giờ vẫn chưa nhận được. Shop kiểm tra giúp mình "
        "đơn hàng đang ở đâu và khi nào thì giao nhé.",
    ],
    "emoji": [
        "Reminder ⏰: standup at 9 ☕, demo at 3 💻, then cake 🎂🍰 for Ana's birthday 🎁🎈 — don't be late 😅",
        "🐶🐱🐭🐹🐰🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵🌱🌲🌳🌴🌵🍎🍊🍋🍌🍉🍇🍓⚽🏀🏈⚾🎾",
        "Build passed ✅ deploy failed ❌ — rolling back ⏪ and checking logs 🔍. Update: fixed 🔧, all "
        "green 💚 again!",
        "Happy birthday!! 🎉🎂🥳 Hope you have an amazing day 😘❤️ see you tonight 🍷😂",
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
