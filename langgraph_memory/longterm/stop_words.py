"""Words that a question is made of and that say little about what is asked for, by language."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH = _words(
    """a about above after again against all am an and any are as at be because been before being below between
        both but by can could d did didn do does doesn doing don down during each few for from further
        had has hasn have haven having he her here hers herself him himself his how i if in into is isn
        it its itself just kind kinds ll m many me more most much my myself no nor not now of off on
        once only or other our ours ourselves out over own re s same she should so some such t than that
        the their theirs them themselves then there these they this those through to too type types
        under until up ve very was wasn we were what when where which while who whom whose why will with
        would you your yours yourself yourselves"""
)
OTHERS = tuple(
    _words(text)
    for text in (
        # German
        """aber als am an auch auf aus bei bin bis da das dass dein deine dem den der des die dies diese du durch
        ein eine einem einen einer er es fur gegen hab habe haben hat hatte ich ihm ihn ihr ihre im in
        ist ja kann kein keine man mein meine mich mir mit nach nicht noch nur oder ob sein seine sich
        sie sind so uber um und uns unser unter vom von vor wann war waren warum was welche welchem
        welchen welcher welches wem wen wenn wer wie wieso wir wird wo zu zum zur""",
        # French
        """a ai as au aux avec avez avons c ce ces cet cette combien comment d dans de des du elle elles en est et
        etait eu il ils j je l la le les leur lui m ma mais me mes moi mon n ne nos notre nous on ont ou
        par pas pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa se ses son sont sur t
        ta te tes toi ton tu un une vos votre vous y""",
        # Spanish
        """a al como con cual cuales cuando cuanto cuantos de del donde el ella ellas ellos en era eres es esa ese
        eso esta estan este esto ha han has hay he la las le les lo los me mi mis muy no nos o para pero
        por porque que quien quienes se ser si sin sobre son soy su sus te tu tus un una uno unos y ya
        yo""",
        # Italian
        """a ad ai al alla anche c che chi ci come con cosa cui da dal dalla dei del della di dove e era gli ha hai
        hanno ho i il in io l la le lei lo loro lui ma mi mia mio ne nel nella noi non o per perche piu
        qual quale quali quando quanti quanto questa questo se sei si sono su sua suo ti tu tua tuo un
        una uno vi""",
        # Portuguese
        """a ao aos as com como da das de do dos e ela ele eles em era essa esse esta este eu foi ha isso ja la lhe
        mas me meu meus minha muito na nao nas no nos o onde os ou para pela pelo por porque qual quais
        quando quanto que quem se sem ser seu seus sua tem teu tu tua um uma voce voces""",
        # Russian
        """а без бы был была были было быть в вам вас во вот все вы где да для до его ее если есть еще же за и из
        или им их к как какая какие какой какую ко когда который кто куда ли мне мной мой мои моя мы на
        нас не него нее ней нет ни но ну о об он она они от по почему при про с свои свой себя со
        сколько та так там те тебя тем то тебе того тоже только том ты у уже чего чей чем что чтобы эта
        эти это этот я""",
    )
)
CHINESE = re.compile(
    "为什么|什么|怎么样|怎么|怎样|如何|哪些|哪个|哪里|哪儿|哪家|哪部|哪位|多少|是否|有没有|曾经|请问|告诉|记得|知道|还是|"
    "我们|你们|他们|她们|咱们|自己|这个|那个|这些|那些|一个|一些|一下|[的了着过吗呢吧啊呀我你您他她它们是和与及或也都就还这那]"
)
"""Parts a question at the words that only make it one."""
_KANA = re.compile("[\u3040-\u309f]+")


def spoken(words: Sequence[str], written: Collection[str]) -> frozenset[str]:
    """The stop words of the language a question seems to be in; of another than English there are two at least.

    `written` are its words with their accents: "thé" is not the English "the".
    """
    english = ENGLISH.difference(word for word in words if word not in written)
    best = max(OTHERS, key=lambda language: sum(word in language for word in words))
    others = sum(word in best for word in words)
    return best if others > max(1, sum(word in english for word in words)) else english


def without_particles(pairs: Sequence[str]) -> list[str]:
    """Pairs of characters without those that are Japanese endings only, as long as others are left."""
    return [pair for pair in pairs if not _KANA.fullmatch(pair)] or list(pairs)
