"""Names for titles, put together from words, each in Japanese, Chinese and English.

No name contains another, in any of the languages, so that a search for a whole name has one answer unless the
catalogue wants two.
"""

from __future__ import annotations

from typing import NamedTuple


class Names(NamedTuple):
    """What a title is called."""

    ja: str
    zh: str
    en: str


def _words(text: str) -> tuple[Names, ...]:
    return tuple(Names(*(part.replace("_", " ") for part in word.split("/"))) for word in text.split())


QUALITIES = _words(
    """
    蒼き/苍蓝的/Azure 紅の/绯红的/Crimson 黄金の/黄金的/Golden 白銀の/白银的/Silver 漆黒の/漆黑的/Pitch-Black
    翠緑の/翠绿的/Emerald 沈黙の/沉默的/Silent 永遠の/永恒的/Eternal 最後の/最后的/Last 最初の/最初的/First
    忘れられた/被遗忘的/Forgotten 迷える/迷途的/Wandering 眠れる/沉睡的/Sleeping 燃える/燃烧的/Burning
    凍てつく/冰冻的/Frozen 秘密の/秘密的/Secret 真夜中の/午夜的/Midnight 暁の/拂晓的/Daybreak 黄昏の/黄昏的/Twilight
    嵐の/暴风的/Stormy 硝子の/玻璃的/Glass 鋼鉄の/钢铁的/Steel 水晶の/水晶的/Crystal 星屑の/星尘的/Stardust
    月下の/月下的/Moonlit 春風の/春风的/Vernal 真夏の/盛夏的/Midsummer 秋雨の/秋雨的/Autumnal 冬空の/冬日的/Wintry
    放課後の/放学后的/After-School 笑わない/不笑的/Unsmiling 空飛ぶ/飞天的/Flying 小さな/小小的/Tiny
    偉大なる/伟大的/Great 無敵の/无敌的/Invincible 臆病な/胆小的/Timid 気まぐれな/任性的/Capricious
    優しい/温柔的/Gentle 孤独な/孤独的/Lonely 不思議な/不可思议的/Curious
    """
)
SUBJECTS = _words(
    """
    旅人/旅人/Traveller 魔女/魔女/Witch 騎士/骑士/Knight 姫君/公主/Princess 勇者/勇者/Hero 竜王/龙王/Dragon_King
    狼/狼/Wolf 狐/狐狸/Fox 黒猫/黑猫/Cat 鴉/乌鸦/Raven 鯨/鲸鱼/Whale 蝶/蝴蝶/Butterfly 人形師/人偶师/Dollmaker
    錬金術師/炼金术士/Alchemist 図書委員/图书委员/Librarian 料理人/厨师/Cook 航海士/航海士/Navigator
    操縦士/飞行员/Pilot 時計職人/钟表匠/Clockmaker 吸血鬼/吸血鬼/Vampire 幽霊/幽灵/Ghost 天使/天使/Angel
    悪魔/恶魔/Devil 歌姫/歌姬/Songstress 踊り子/舞者/Dancer 画家/画家/Painter 作曲家/作曲家/Composer
    棋士/棋士/Shogi_Player 剣豪/剑豪/Swordmaster 忍者/忍者/Ninja 巫女/巫女/Shrine_Maiden 陰陽師/阴阳师/Diviner
    海賊/海盗/Pirate 怪盗/怪盗/Phantom_Thief 名探偵/名侦探/Detective 転校生/转校生/Transfer_Student
    生徒会長/学生会长/President 幼馴染/青梅竹马/Childhood_Friend 魔法使い/魔法师/Wizard 機械人形/机械人偶/Automaton
    宇宙飛行士/宇航员/Astronaut 農夫/农夫/Farmer 薬師/药师/Apothecary 商人/商人/Merchant 門番/守门人/Gatekeeper
    郵便屋/邮差/Postman 花屋/花店/Florist 灯台守/灯塔守/Lighthouse_Keeper
    """
)
ENDINGS = _words(
    """
    物語/物语/Story 戦記/战记/War_Chronicle 日誌/日志/Diary 冒険譚/冒险谭/Adventure 学園/学园/Academy
    探偵団/侦探团/Detective_Club 協奏曲/协奏曲/Concerto 幻想曲/幻想曲/Fantasia 奇譚/奇谭/Mysteries
    黙示録/启示录/Apocalypse 同盟/同盟/Alliance 方程式/方程式/Equation 食堂/食堂/Diner 休暇/假期/Holiday
    """
)
COUNT = len(QUALITIES) * len(SUBJECTS) * len(ENDINGS)
#: Has no factor in common with COUNT, so that its multiples meet every name once.
STRIDE = 10_007


def names(number: int, seed: int) -> Names:
    """Return the names of this number; numbers that differ by less than COUNT have different ones."""
    place = (number * STRIDE + seed * 7_919) % COUNT
    place, ending = divmod(place, len(ENDINGS))
    quality, subject = divmod(place, len(SUBJECTS))
    first, second, third = QUALITIES[quality], SUBJECTS[subject], ENDINGS[ending]
    return Names(
        f"{first.ja}{second.ja}{third.ja}", f"{first.zh}{second.zh}{third.zh}", f"{first.en} {second.en} {third.en}"
    )


def slightly_different(name: Names, number: int) -> str:
    """Return a Japanese name as another hand might write it; never the same, and it does not contain the name."""
    half = len(name.ja) // 2
    first, second = name.ja[:half], name.ja[half:]
    return f"{first}・{second}" if number % 2 else f"{first} {second}!"


def entirely_different(name: Names) -> str:
    """Return another name altogether, of which nobody else has the same."""
    return f"{name.en.upper()} -THE ANIMATION-"
